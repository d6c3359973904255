"""./start.sh --local-model: a person without Ollama talks to a real model, restarts, and goes on."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support import embedded_model
from tests.support.checkout_copy import NOTHING_LEFT, CheckoutCopy, share_downloads

pytestmark = pytest.mark.model


@pytest.fixture
async def copy(tmp_path: Path) -> AsyncIterator[CheckoutCopy]:
    """A copy with the weights of this checkout, and no catalog of its own."""
    embedded_model.prepare("small", "smollm2")
    async with CheckoutCopy(tmp_path) as copy:
        share_downloads(copy.root)
        embedded_model.share_with(copy.root)
        yield copy


def start(copy: CheckoutCopy, *arguments: str) -> str:
    done = copy.sh("start.sh", *arguments, AGENT_BUILDER_MODEL_CATALOG="")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def test_a_conversation_with_the_embedded_model_survives_a_restart(copy: CheckoutCopy) -> None:
    start(copy, "--local-model", "small")
    await copy.login()
    conversation = await copy.new_conversation()
    first = await copy.run(conversation, "My name is Ada. Answer with one short sentence.")
    second = await copy.run(conversation, "What is my name? Answer with the name only.")
    assert [first.terminal["type"], second.terminal["type"]] == ["run.completed", "run.completed"]
    assert "Ada" in second.text
    assert copy.sh("stop.sh").returncode == 0
    assert copy.left_behind() == NOTHING_LEFT

    assert "using the recorded local model (small)" in start(copy)
    await copy.login()
    third = await copy.run(conversation, "Repeat my name once more, the name only.")
    assert "Ada" in third.text
    assert [turn["state"] for turn in (await copy.page(conversation))["turns"]] == ["completed"] * 3
    await copy.ok("DELETE", f"{copy.agent}/sessions/{conversation}")
    assert (await copy.call("GET", f"{copy.agent}/sessions/{conversation}")).status_code == 404
    assert (await copy.call("GET", f"{copy.agent}/runs/{third.run_id}/events")).status_code == 404
    assert copy.sh("stop.sh").returncode == 0
    assert copy.left_behind() == NOTHING_LEFT


async def test_a_model_server_that_died_is_started_again_on_its_port(copy: CheckoutCopy) -> None:
    start(copy, "--local-model", "smollm2")
    record = copy.control_plane / "model-server.pid"
    before = record.read_text()
    dead = copy.recorded("model-server")
    os.kill(dead, signal.SIGKILL)
    async with asyncio.timeout(30):
        while not record.exists() or copy.recorded("model-server") == dead or '"port": 0' in record.read_text():
            await asyncio.sleep(0.05)
    assert record.read_text().split('"port"')[1] == before.split('"port"')[1]
    await copy.login()
    assert (await copy.run(await copy.new_conversation(), "hi")).terminal["type"] == "run.completed"


async def test_weights_that_the_operator_has_are_served(copy: CheckoutCopy, tmp_path: Path) -> None:
    weights = tmp_path / "My own 模型.gguf"
    weights.symlink_to(embedded_model.LOCAL_MODEL / "weights/smollm2-135m-instruct-q4_1.gguf")
    start(copy, "--local-model", "--model-file", str(weights))
    assert (await copy.client.get("/health")).json()["status"] == "ready"


async def test_a_file_that_holds_no_weights_is_refused_and_not_remembered(copy: CheckoutCopy, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.gguf"
    wrong.write_text("not weights")
    refused = copy.sh("start.sh", "--local-model", "--model-file", str(wrong))
    assert (refused.returncode, refused.stderr) == (1, "agent-builder: wrong.gguf is not a GGUF file\n")
    assert not (copy.root / ".runtime/local-model/mode.json").exists()
    assert copy.left_behind() == NOTHING_LEFT


async def test_a_local_model_can_be_forgotten_and_a_catalog_of_ones_own_wins(copy: CheckoutCopy) -> None:
    start(copy, "--local-model", "smollm2")
    copy.sh("stop.sh")
    with_catalog = copy.sh("start.sh")  # nobody answers at the catalog's endpoint
    assert with_catalog.returncode == 1
    assert "AGENT_BUILDER_MODEL_CATALOG is set" in with_catalog.stdout
    forgotten = copy.sh("start.sh", "--no-local-model")
    assert "no longer used" in forgotten.stdout
    assert not (copy.root / ".runtime/local-model/mode.json").exists()
