"""kill -9 of the Gateway at every durable boundary of a Turn, and of the Worker: one terminal, nothing lost, nothing left."""

import asyncio
import os
import signal

import httpx
import pytest

from tests.support.fake_ollama import FakeOllama, Gate, begun, call, gated, text
from tests.support.gateway import TERMINALS, Gateway

PLAIN = 7  # transactions of a Turn without tools: begin, admit, request, attempt, first frame, response, terminal
EDIT = 22  # of a Turn that reads a file and changes it


async def submit_and_die(gateway: Gateway, conversation: str, message: str) -> None:
    """Sends and, where an approval is asked for, approves; the process dies somewhere on the way."""
    try:
        accepted = await gateway.submit(conversation, message)
        async for event in gateway.events(accepted["run_id"]):
            if event["type"] == "permission.requested":
                path = f"{gateway.agent}/permissions/{event['payload']['permission_id']}"
                await gateway.call("POST", path, {"decision": "approve"})
    except httpx.TransportError:
        pass  # what a client of a dying server gets
    await gateway.killed()


async def converged(gateway: Gateway, fake: FakeOllama, conversation: str) -> list[dict[str, object]]:
    """After the restart: every Turn has ended, each Run has one terminal, and the Conversation goes on. Gives the Turns."""
    turns = (await gateway.page(conversation))["turns"]
    for turn in turns:
        assert turn["state"] in ("completed", "failed", "cancelled", "interrupted")
        events = [event async for event in gateway.events(turn["run_id"])]
        assert [event["type"] for event in events if event["type"] in TERMINALS] == [f"run.{turn['state']}"]
        assert [event["seq"] for event in events] == sorted({event["seq"] for event in events})
        opened = [event["payload"]["call_id"] for event in events if event["type"] == "tool.call.proposed"]
        assert [event["payload"]["call_id"] for event in events if event["type"] == "tool.call.finished"] == opened
    assert not gateway.worker_pids()
    assert not list(gateway.root.glob(".runtime/agents/*/runs/*"))
    assert (await gateway.ok("GET", f"{gateway.agent}/permissions"))["items"] == []
    fake.forget_script()
    assert (await gateway.run(conversation, "and now?")).text == "ok"
    return list(turns)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(1, PLAIN + 1))
async def test_the_gateway_is_killed_at_a_boundary_of_a_plain_turn(gateway: Gateway, fake: FakeOllama, number: int, when: str) -> None:
    conversation = await gateway.new_conversation()
    fake.script(text("an answer"))
    await gateway.command(kill_at_commit=number, when=when)
    await submit_and_die(gateway, conversation, "hello")
    await gateway.start()
    await gateway.login()
    turns = await converged(gateway, fake, conversation)
    begun_at_all = (number, when) != (1, "before")
    assert [turn["user_text"] for turn in turns] == (["hello"] if begun_at_all else [])
    if begun_at_all:
        assert turns[0]["state"] == ("completed" if (number, when) == (PLAIN, "after") else "interrupted")


async def test_the_boundaries_above_are_all_there_are(gateway: Gateway, fake: FakeOllama) -> None:
    conversation = await gateway.new_conversation()
    before = len((await gateway.command(commits=True))["commits"])
    fake.script(text("an answer"))
    await gateway.run(conversation, "hello")
    assert len((await gateway.command(commits=True))["commits"]) - before == PLAIN
    (gateway.workspace / "n.md").write_text("teh\n")
    fake.script(call("file_read_text", path="n.md"), call("file_edit", path="n.md", old="teh", new="the"), text("done"))
    await gateway.run(conversation, "fix it", decide="approve")
    assert len((await gateway.command(commits=True))["commits"]) - before == PLAIN + EDIT


@pytest.mark.parametrize("number", range(1, EDIT + 1))
async def test_the_gateway_is_killed_at_a_boundary_of_an_edit(gateway: Gateway, fake: FakeOllama, number: int) -> None:
    """The file is the old or the new one, whole; a completed Turn never lies about it."""
    conversation, path = await gateway.new_conversation(), gateway.workspace / "n.md"
    path.write_text("teh\n")
    fake.script(call("file_read_text", path="n.md"), call("file_edit", path="n.md", old="teh", new="the"), text("done"))
    await gateway.command(kill_at_commit=number, when="after")
    await submit_and_die(gateway, conversation, "fix it")
    content = path.read_text()
    assert content in ("teh\n", "the\n")
    await gateway.start()
    await gateway.login()
    turns = await converged(gateway, fake, conversation)
    assert path.read_text() == content
    assert sorted(entry.name for entry in gateway.workspace.iterdir()) == ["agent-builder.md", "n.md"]
    if turns[0]["state"] == "completed":
        assert content == "the\n"


async def test_a_killed_worker_fails_its_run_and_no_other(gateway: Gateway, fake: FakeOllama) -> None:
    gate, conversation = Gate(), await gateway.new_conversation()
    fake.script(gated(gate, text("never"), before=begun("begin")))
    accepted = await gateway.submit(conversation, "hello")
    events = []
    async for event in gateway.events(accepted["run_id"]):
        events.append(event)
        if event["type"] == "assistant.block.delta":
            (pid,) = gateway.worker_pids()
            os.kill(pid, signal.SIGKILL)
    gate.open()
    assert events[-1]["type"] == "run.failed"
    assert events[-1]["payload"]["code"] == "worker_crashed"
    assert "signal 9" in events[-1]["payload"]["message"]
    await converged(gateway, fake, conversation)


async def test_many_turns_survive_a_power_cut(gateway: Gateway, fake: FakeOllama) -> None:
    conversation = await gateway.new_conversation()
    for number in range(5):
        fake.script(text(f"answer {number}"))
        await gateway.run(conversation, f"question {number}")
    await gateway.kill()
    await gateway.start()
    await gateway.login()
    turns = await converged(gateway, fake, conversation)
    assert [turn["assistant_text"] for turn in turns] == [f"answer {number}" for number in range(5)]


async def test_a_worker_that_outlived_its_gateway_is_ended_at_start(gateway: Gateway, fake: FakeOllama) -> None:
    gate, conversation = Gate(), await gateway.new_conversation()
    fake.script(gated(gate, text("never"), before=begun("begin")))
    accepted = await gateway.submit(conversation, "hello")
    async for event in gateway.events(accepted["run_id"]):
        if event["type"] == "assistant.block.delta":
            break
    (pid,) = gateway.worker_pids()
    os.kill(pid, signal.SIGSTOP)  # it cannot notice that its host is gone
    await gateway.kill()
    await asyncio.sleep(0)
    await gateway.start()
    await gateway.login()
    gate.open()
    await converged(gateway, fake, conversation)
