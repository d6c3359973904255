"""A full disk, for real: the checkout's data lies on a small file system. What cannot be written fails cleanly, nothing is lost, and
work goes on when there is space again."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agent_builder.protocol.limits import TERMINAL_RETRY_S
from tests.support.fake_ollama import FakeOllama, Gate, begun, call, gated, text
from tests.support.followed import begin, nothing_left
from tests.support.gateway import Gateway
from tests.support.raw_stream import journal


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB at the checkout's data."""
    data = tmp_path / "checkout 中文" / "data"
    data.mkdir(parents=True, mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs", str(data)], check=True)
    try:
        yield data
    finally:
        subprocess.run(["umount", "-l", str(data)], check=True)


@pytest.fixture
async def gateway(small_disk: Path, tmp_path: Path, fake: FakeOllama) -> AsyncIterator[Gateway]:
    async with Gateway(tmp_path, fake.port) as running:
        yield running


def fill(disk: Path) -> Path:
    """Not one block is left."""
    filler = disk / "filler"
    descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT)
    try:
        for size in (65536, 4096):
            try:
                while True:
                    os.write(descriptor, b"x" * size)
            except OSError:
                continue
    finally:
        os.close(descriptor)
    assert os.statvfs(disk).f_bavail == 0
    return filler


async def test_a_terminal_waits_for_space_and_everything_else_says_so(gateway: Gateway, fake: FakeOllama, small_disk: Path) -> None:
    gate, other = Gate(), await gateway.new_conversation()
    fake.script(gated(gate, text("end"), before=begun("begin")))
    run = await begin(gateway)
    await run.until("model.transport.attempt.finished")
    filler = fill(small_disk)
    gate.open()
    await run.until("storage_full")
    sent = await gateway.call("POST", f"{gateway.agent}/sessions/{run.conversation}/runs", {"message": "next"})
    assert (sent.status_code, sent.json()["error"]["code"]) == (409, "conversation_busy")
    for method, path, body in (
        ("POST", f"sessions/{other}/runs", {"message": "next"}), ("POST", "sessions", {}), ("PATCH", f"sessions/{other}", {"title": "x" * 100}),
    ):
        refused = await gateway.call(method, f"{gateway.agent}/{path}", body)
        assert (refused.status_code, refused.json()["error"]["code"], refused.json()["error"]["retryable"]) == (503, "storage_full", True)
    assert (await gateway.call("POST", "/api/agents", {"name": "New"})).status_code == 503
    assert [row["system"] for row in (await gateway.ok("GET", "/api/agents"))["items"]] == [True]
    assert (await gateway.page(other))["turns"] == []
    await gateway.advance(TERMINAL_RETRY_S + 1)
    await run.until("storage_full", times=2)
    filler.unlink()
    await gateway.advance(TERMINAL_RETRY_S + 1)
    await run.end()
    assert (run.terminal["type"], run.terminal["payload"]["code"]) == ("run.failed", "storage_full")
    assert [event["event_id"] for event in await journal(gateway, run.run_id)][-1] == run.terminal["event_id"]
    await nothing_left(gateway)
    for conversation in (run.conversation, other):
        assert (await gateway.run(conversation, "and now?")).text == "ok"


async def test_a_disk_that_fills_while_a_write_waits_for_approval_ends_in_one_terminal(gateway: Gateway, fake: FakeOllama, small_disk: Path) -> None:
    fake.script(call("file_write", path="new.txt", content="x" * 5000))
    run = await begin(gateway)
    asked = await run.until("permission.requested")
    filler = fill(small_disk)
    await gateway.call("POST", f"{gateway.agent}/permissions/{asked['payload']['permission_id']}", {"decision": "approve"})
    await run.until("storage_full")
    filler.unlink()
    await gateway.advance(TERMINAL_RETRY_S + 1)
    await run.end()
    kept = [event["type"] for event in await journal(gateway, run.run_id)]
    assert kept.count("tool.call.finished") == kept.count("tool.call.proposed") == 1
    assert kept[-1] == "run.failed"
    assert (gateway.workspace / "new.txt").exists() is False
    assert sorted(path.name for path in gateway.workspace.iterdir()) == ["agent-builder.md"]
    await nothing_left(gateway)


@pytest.mark.parametrize("killed", [True, False])
async def test_a_run_that_could_not_be_ended_before_the_gateway_was_is_ended_when_there_is_space(
    gateway: Gateway, fake: FakeOllama, small_disk: Path, killed: bool
) -> None:
    gate = Gate()
    fake.script(gated(gate, text("end"), before=begun("begin")))
    run = await begin(gateway)
    await run.until("model.transport.attempt.finished")
    filler = fill(small_disk)
    gate.open()
    await run.until("storage_full")
    await (gateway.kill() if killed else gateway.stop())
    await run.end()
    await gateway.start()  # what the Gateway itself needs has its space from before
    await gateway.login()
    while_full = await gateway.call("GET", f"{gateway.agent}/sessions/{run.conversation}")
    assert while_full.status_code == 503 or while_full.json()["turns"][0]["state"] == "interrupted"
    filler.unlink()
    kept = [event["type"] for event in await journal(gateway, run.run_id)]
    assert kept[-1] == "run.interrupted"
    assert kept.count("model.request.started") == kept.count("model.response.finished") == 1
    (turn,) = (await gateway.page(run.conversation))["turns"]
    assert (turn["state"], "assistant_text" in turn) == ("interrupted", False)
    assert (await gateway.run(run.conversation, "and now?")).text == "ok"
    await nothing_left(gateway)


async def test_a_start_on_a_full_disk_says_so_in_one_line(gateway: Gateway, small_disk: Path) -> None:
    await gateway.stop()
    filler = fill(small_disk)
    with pytest.raises(RuntimeError, match="full"):
        await gateway.start()
    assert "Traceback" not in gateway.log_text()
    filler.unlink()
    await gateway.start()
    await gateway.login()
    assert (await gateway.run(await gateway.new_conversation(), "hello")).text == "ok"
