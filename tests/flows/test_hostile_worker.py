"""A Worker that has been taken over, below the real Gateway: other Runs, other clients and the next Turn do not notice."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.fake_ollama import FakeOllama, Gate, begun, call, gated, text
from tests.support.gateway import Gateway, RunResult
from tests.support.hostile_env import make_hostile

pytestmark = pytest.mark.asyncio(loop_scope="module")
WRITE = call("file_write", path="new.txt", content="x")
ATTACKS = {
    "exits quietly": "worker_crashed", "floods without a line": "worker_protocol", "floods with frames": "worker_protocol",
    "floods stderr": "worker_protocol", "sends binary": "worker_protocol", "answers without a model": "worker_protocol",
    "calls what nobody proposed": "worker_protocol", "changes the arguments": "worker_protocol", "takes a call up twice": "worker_protocol",
    "asks without end": "worker_protocol", "fills its directory": "run_tree_limit", "leaves while an approval waits": "worker_crashed",
    "floods while nobody reads": "worker_protocol", "does not let itself be ended": "worker_protocol",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def taken_over(shared: Gateway, shared_fake: FakeOllama) -> AsyncIterator[Gateway]:
    """From the second Run on, every Worker is the hostile one; a message without an attack finds it well-behaved."""
    await spare_is_there(shared)
    (main,) = shared.root.glob(".runtime/agents/*/worker-env/**/worker/__main__.py")
    make_hostile(main.parents[1])
    await shared.run(await shared.new_conversation(), "hello")
    yield shared


async def spare_is_there(gateway: Gateway) -> None:
    async with asyncio.timeout(20):
        while (await gateway.client.get("/health")).json()["spare_workers"] == 0:
            await asyncio.sleep(0.01)


async def nothing_left(gateway: Gateway) -> None:
    async with asyncio.timeout(20):
        while gateway.worker_pids() or list(gateway.root.glob(".runtime/agents/*/runs/*")):
            await asyncio.sleep(0.01)


def names(gateway: Gateway) -> list[str]:
    return sorted(path.name for path in gateway.workspace.iterdir())


@pytest.mark.parametrize(("attack", "code"), ATTACKS.items())
async def test_its_run_fails_and_everything_else_goes_on(taken_over: Gateway, shared_fake: FakeOllama, attack: str, code: str) -> None:
    gateway = taken_over
    conversation, before = await gateway.new_conversation(), names(gateway)
    shared_fake.script(WRITE)
    run = await gateway.run(conversation, f"attack: {attack}", decide=None if "approval" in attack else "deny")
    assert (run.terminal["type"], run.terminal["payload"]["code"]) == ("run.failed", code)
    assert "HOSTILE" not in str(run.events)
    assert "tool.call.started" not in run.types
    assert names(gateway) == before
    assert (await gateway.client.get("/health")).status_code == 200
    shared_fake.forget_script()
    shared_fake.script(text("all is well"))
    assert (await gateway.run(conversation, "hello")).text == "all is well"
    await nothing_left(gateway)
    replay = await gateway.ok("GET", f"{gateway.agent}/runs/{run.run_id}/replay")
    assert [event["type"] for event in replay["items"]].count("run.failed") == 1
    assert "HOSTILE" not in str(replay)


async def test_a_flood_beside_it_does_not_disturb_another_run(taken_over: Gateway, shared_fake: FakeOllama) -> None:
    gateway, gate = taken_over, Gate()
    quiet, loud = await gateway.new_conversation(), await gateway.new_conversation()
    shared_fake.script(gated(gate, text(" and end"), before=begun("begin")))
    accepted = await gateway.submit(quiet, "tell me")
    following = RunResult(accepted["run_id"], accepted["turn_id"])
    async for event in gateway.events(following.run_id):
        following.events.append(event)
        if event["type"] == "assistant.block.delta" and not gate._open.is_set():
            for attack in ("floods stderr", "floods without a line", "floods with frames"):
                assert (await gateway.run(loud, f"attack: {attack}")).terminal["payload"]["code"] == "worker_protocol"
            gate.open()
    assert following.text == "begin and end"
    await nothing_left(gateway)
