"""The operator stops a Run, in every phase of it."""

import asyncio

from tests.support.fake_ollama import FakeOllama, Gate, begun, call, gated, prefill, text
from tests.support.gateway import Gateway, Json, RunResult


async def started(gateway: Gateway, conversation: str, until: str, stage: str | None = None) -> tuple[RunResult, asyncio.Task[None]]:
    """A Run that has come as far as an event of this type; the task reads on to its terminal."""
    accepted = await gateway.submit(conversation, "hello")
    run, reached = RunResult(accepted["run_id"], accepted["turn_id"]), asyncio.Event()

    def there(event: Json) -> bool:
        return event["type"] == until and stage in (None, event["payload"].get("stage"))

    async def read() -> None:
        async for event in gateway.events(run.run_id):
            run.events.append(event)
            if there(event):
                reached.set()

    reading = asyncio.create_task(read())
    await asyncio.wait_for(reached.wait(), 20)
    return run, reading


async def cancelled(gateway: Gateway, run: RunResult, reading: asyncio.Task[None]) -> None:
    answer = await gateway.call("POST", f"{gateway.agent}/runs/{run.run_id}/cancel")
    assert (answer.status_code, answer.json()) == (202, {"outcome": "accepted"})
    await asyncio.wait_for(reading, 20)
    assert run.terminal["type"] == "run.cancelled"


async def usable(gateway: Gateway, fake: FakeOllama, conversation: str) -> None:
    """The Conversation goes on, without the cancelled Turn in its history, and nothing is left behind."""
    fake.script(text("fine"))
    run = await gateway.run(conversation, "next")
    assert run.text == "fine"
    assert "hello" not in [message["content"] for message in fake.chats[-1]["messages"]]
    async with asyncio.timeout(10):
        while gateway.worker_pids() or list(gateway.root.glob(".runtime/agents/*/runs/*")):
            await asyncio.sleep(0.01)


async def test_while_the_answer_streams(gateway: Gateway, fake: FakeOllama) -> None:
    gate, conversation = Gate(), await gateway.new_conversation()
    fake.script(gated(gate, text("never"), before=begun("begin")))
    run, reading = await started(gateway, conversation, "assistant.block.delta")
    await cancelled(gateway, run, reading)
    await fake.closed(1)
    (turn,) = (await gateway.page(conversation))["turns"]
    assert (turn["state"], turn.get("assistant_text")) == ("cancelled", None)
    await usable(gateway, fake, conversation)


async def test_while_the_prompt_is_evaluated(gateway: Gateway, fake: FakeOllama) -> None:
    gate, conversation = Gate(), await gateway.new_conversation()
    fake.script(prefill(gate))
    run, reading = await started(gateway, conversation, "run.stage", "evaluating_prompt")
    await fake.asked(1)
    await cancelled(gateway, run, reading)
    gate.open()
    await usable(gateway, fake, conversation)


async def test_while_an_approval_waits(gateway: Gateway, fake: FakeOllama) -> None:
    conversation = await gateway.new_conversation()
    fake.script(call("file_write", path="new.txt", content="x"))
    run, reading = await started(gateway, conversation, "permission.requested")
    (waiting,) = (await gateway.ok("GET", f"{gateway.agent}/permissions"))["items"]
    await cancelled(gateway, run, reading)
    assert run.of("permission.resolved") == [{"permission_id": waiting["permission_id"], "decision": "stale"}]
    late = await gateway.call("POST", f"{gateway.agent}/permissions/{waiting['permission_id']}", {"decision": "approve"})
    assert (late.status_code, late.json()["error"]["code"]) == (409, "permission_stale")
    assert not (gateway.workspace / "new.txt").exists()
    await usable(gateway, fake, conversation)


async def test_through_its_operation_id(gateway: Gateway, fake: FakeOllama) -> None:
    gate, conversation = Gate(), await gateway.new_conversation()
    path = f"{gateway.agent}/sessions/{conversation}/preparation"
    assert await gateway.ok("GET", path) == {"state": "idle", "operation_id": None}
    fake.script(gated(gate, text("x")))
    _, reading = await started(gateway, conversation, "model.request.started")
    state = await gateway.ok("GET", path)
    assert state["state"] == "running"
    stale = await gateway.ok("POST", f"{path}/cancel", {"operation_id": conversation})
    assert stale == {"outcome": "stale"}
    assert await gateway.ok("POST", f"{path}/cancel", {"operation_id": state["operation_id"]}) == {"outcome": "accepted"}
    await asyncio.wait_for(reading, 20)
    async with asyncio.timeout(10):
        while (await gateway.ok("GET", path))["state"] != "idle":
            await asyncio.sleep(0.01)
    assert await gateway.ok("POST", f"{path}/cancel", {"operation_id": state["operation_id"]}) == {"outcome": "stale"}


async def test_a_finished_run_cannot_be_cancelled(gateway: Gateway, fake: FakeOllama) -> None:
    run = await gateway.run(await gateway.new_conversation(), "hello")
    answer = await gateway.call("POST", f"{gateway.agent}/runs/{run.run_id}/cancel")
    assert (answer.status_code, answer.json()) == (202, {"outcome": "stale"})
