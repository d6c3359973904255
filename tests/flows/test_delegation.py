"""One Agent asks another through the whole system: two real Agents of one Gateway, each Run with its own Worker."""

import asyncio

import pytest
import pytest_asyncio

from agent_builder.protocol.limits import DELEGATE_ANSWER_BYTES, DELEGATE_MESSAGE_BYTES, DELEGATE_S
from tests.support.delegating import Two, two_agents
from tests.support.fake_ollama import FakeOllama, Gate, call, gated, status, text
from tests.support.gateway import SYSTEM_AGENT, Gateway
from tests.support.tool_turns import entry, outcomes

ENTRIES = entry("hasty", "budgets = { run_s = 60, delegate_s = 300 }")
pytestmark = pytest.mark.asyncio(loop_scope="module")
WRITE = call("file_write", path="note.txt", content="from Bob\n")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def other(shared: Gateway, shared_fake: FakeOllama) -> str:
    return (await two_agents(shared, shared_fake)).other


@pytest_asyncio.fixture(loop_scope="module")
async def two(shared: Gateway, shared_fake: FakeOllama, other: str) -> Two:
    (shared.root / f"data/agents/{other}/workspace/note.txt").unlink(missing_ok=True)
    return Two(shared, shared_fake, await shared.new_conversation(), other, len(shared_fake.chats))


async def test_an_approved_delegation_answers_from_the_other_agents_own_capsule(two: Two) -> None:
    run = await two.run(two.ask("What is\n2 + 3?"), text("Five."), text("Bob says five."))
    assert (run.text, outcomes(run)) == ("Bob says five.", [("ok", None)])
    assert two.result == 'The Agent "Bob" answered:\n\nFive.'
    (item,) = await two.chain()
    child = item["child"]
    assert (item["state"], item["run_id"], child["agent_id"], child["agent_name"], child["deleted"]) == ("completed", run.run_id, two.other, "Bob", False)
    assert [(one["direction"], one["text"]) for one in item["mailbox"]] == [("to_child", "What is\n2 + 3?"), ("to_parent", "Five.")]
    turn = await two.child_turn()
    assert (turn["state"], turn["user_text"], turn["assistant_text"], turn["run_id"]) == ("completed", "What is\n2 + 3?", "Five.", child["run_id"])
    assert next(one for one in await two.children() if one["conversation_id"] == child["conversation_id"])["asked_by"] == SYSTEM_AGENT
    (receipt,) = (one["receipt"] for one in run.of("tool.call.finished"))
    assert (receipt["task_id"], receipt["run_id"], receipt["truncated"]) == (item["task_id"], child["run_id"], False)
    await two.nothing_left()


async def test_the_tool_is_offered_with_the_names_of_the_others_and_not_to_a_child(two: Two) -> None:
    await two.run(two.ask("help"), text("done"), text("fine"))
    parent, child = two.chats[0], two.chats[1]
    names = [[tool["function"]["name"] for tool in chat["tools"]] for chat in (parent, child)]
    assert [set(names[0]) - set(names[1]), set(names[1]) - set(names[0])] == [{"agent_delegate"}, set()]
    told = [[str(message["content"]) for message in chat["messages"] if two.other in str(message["content"])] for chat in (parent, child)]
    assert len(told[0]) == 1 and f"\nAgent {two.other}: Bob\n" in told[0][0] and SYSTEM_AGENT not in told[0][0] and told[1] == []
    assert [message["content"] for message in child["messages"] if message["role"] == "user"] == ["help"]


async def test_the_operator_sees_whom_and_the_whole_message(two: Two) -> None:
    message = "line one\n" + "x" * 4000 + "\u202eend"
    asking = await two.begin(two.ask(message), text("ok then"), until="permission.requested", decide="")
    (asked,) = asking.run.of("permission.requested")
    path = f"{two.gateway.agent}/permissions/{asked['permission_id']}"
    whole = (await two.gateway.ok("GET", path))["diff"]
    assert whole == f"Bob\n{two.other}\n\nline one\n{'x' * 4000}⟦U+202E⟧end\n"
    assert asked["preview"].startswith(f"Bob\n{two.other}\n")
    await two.decide(asked["permission_id"], "deny")
    run = await asking.ended()
    assert outcomes(run) == [("denied", "denied")]
    assert await two.chain() == []


async def test_an_agent_that_was_renamed_meanwhile_is_not_asked(two: Two) -> None:
    asking = await two.begin(two.ask(), text("well"), until="permission.requested", decide="")
    await two.gateway.ok("PATCH", two.bob, {"name": "Robert"})
    path = f"{two.gateway.agent}/permissions/{asking.run.of('permission.requested')[0]['permission_id']}"
    answer = await two.gateway.call("POST", path, {"decision": "approve"})
    await two.gateway.ok("PATCH", two.bob, {"name": "Bob"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "permission_stale")
    assert outcomes(await asking.ended()) == [("refused", "permission_stale")]
    assert await two.chain() == []


async def test_one_run_asks_once(two: Two) -> None:
    run = await two.run(two.ask("first"), text("one"), two.ask("second"), text("fine"))
    assert outcomes(run) == [("ok", None), ("refused", "already_asked")]
    assert len(run.of("permission.requested")) == 1
    assert len(await two.chain()) == 1


@pytest.mark.parametrize(("whom", "code"), [
    (SYSTEM_AGENT, "own_agent"), ("00000000-0000-4000-8000-00000000dead", "no_such_agent"), ("Bob", "no_such_agent"),
])
async def test_nobody_is_asked_under_a_wrong_id_and_the_answer_names_the_others(two: Two, whom: str, code: str) -> None:
    run = await two.run(two.ask(agent_id=whom), text("fine"))
    assert outcomes(run) == [("refused", code)]
    assert f"Agent {two.other}: Bob" in two.result
    assert run.of("permission.requested") == []


@pytest.mark.parametrize(("message", "code"), [
    (" \n", "message"), ("a\x07b", "message"), ("x" * (DELEGATE_MESSAGE_BYTES + 1), None),
])
async def test_a_message_keeps_its_bounds(two: Two, message: str, code: str | None) -> None:
    run = await two.run(two.ask(message), text("fine"))
    assert [one["outcome"] for one in run.of("tool.call.finished")] == ["refused"]
    assert await two.chain() == [] and run.of("permission.requested") == []


async def test_an_answer_is_cut_with_a_receipt(two: Two) -> None:
    await two.run(two.ask("x" * DELEGATE_MESSAGE_BYTES), text(" ".join(map(str, range(2500))), size=400), text("fine"))
    assert len(two.result.encode()) == DELEGATE_ANSWER_BYTES
    assert "[shortened: call " in two.result and "reason tool_bound]" in two.result
    letters = (await two.chain())[0]["mailbox"]
    assert [len(one["text"]) for one in letters] == [DELEGATE_MESSAGE_BYTES, DELEGATE_ANSWER_BYTES - 2]


async def test_without_a_free_slot_it_is_answered_at_once(two: Two) -> None:
    others = [Two(two.gateway, two.fake, await two.gateway.new_conversation(), two.other, 0) for _ in range(3)]
    waiting = [await one.begin(WRITE, until="permission.requested", decide="") for one in others]
    run = await two.run(two.ask(), text("fine"))
    assert outcomes(run) == [("refused", "run_limit")]
    assert await two.chain() == []
    for asking in waiting:
        await two.decide(asking.run.of("permission.requested")[0]["permission_id"], "deny")
        await asking.ended()


async def test_two_delegations_run_side_by_side_in_four_slots(two: Two) -> None:
    second, gate = Two(two.gateway, two.fake, await two.gateway.new_conversation(), two.other, 0), Gate()
    first_asking = await two.begin(two.ask(), WRITE, until="tool.call.started")
    (permission,) = await pending(two)
    second_asking = await second.begin(second.ask(), gated(gate, text("two")), until="tool.call.started")
    refused = await two.gateway.call("POST", f"{two.bob}/sessions/{await two.gateway.new_conversation(two.other)}/runs", {"message": "hello"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "run_limit")
    gate.open()
    await second_asking.ended()
    await two.decide(permission, "deny", two.bob)
    assert (await first_asking.ended()).terminal["type"] == "run.completed"
    assert [(await one.chain())[0]["state"] for one in (two, second)] == ["completed", "completed"]


async def pending(two: Two) -> list[str]:
    """Permissions that wait in the other Agent."""
    async with asyncio.timeout(20):
        while not (items := (await two.gateway.ok("GET", f"{two.bob}/permissions"))["items"]):
            await asyncio.sleep(0.01)
    return [item["permission_id"] for item in items]


async def test_what_the_child_wants_to_change_reaches_the_operator_in_its_own_agent(two: Two) -> None:
    asking = await two.begin(two.ask("write a note"), WRITE, text("written"), text("Bob wrote it."))
    (permission,) = await pending(two)
    (agent,) = (one for one in (await two.gateway.ok("GET", "/api/agents"))["items"] if one["agent_id"] == two.other)
    assert (agent["waiting"], (await two.chain())[0]["state"]) == (1, "running")
    await two.decide(permission, "approve", two.bob)
    assert (await asking.ended()).text == "Bob wrote it."
    assert (two.gateway.root / f"data/agents/{two.other}/workspace/note.txt").read_text() == "from Bob\n"
    assert not (two.gateway.workspace / "note.txt").exists()


async def test_a_child_that_fails_is_named_with_its_code(two: Two) -> None:
    run = await two.run(two.ask(), status(400, {"error": "no"}), text("no luck"))
    assert outcomes(run) == [("failed", "child_failed")]
    turn, (item,) = await two.child_turn(), await two.chain()
    assert (turn["state"], item["state"], item["code"]) == ("failed", "failed", turn["error"]["code"])
    assert turn["error"]["code"] in two.result and turn["error"]["message"] in two.result
    assert [one["direction"] for one in item["mailbox"]] == ["to_child"]


async def test_the_parents_end_is_the_childs_end_first(two: Two) -> None:
    gate = Gate()
    asking = await two.begin(two.ask(), gated(gate, text("never")))
    await two.fake.asked(two.first_chat + 2)
    await two.gateway.ok("POST", f"{two.gateway.agent}/runs/{asking.run.run_id}/cancel")
    assert (await asking.ended()).terminal["type"] == "run.cancelled"
    (item,) = await two.chain()
    assert (item["state"], (await two.child_turn())["state"], len(item["mailbox"])) == ("cancelled", "cancelled", 1)
    await two.nothing_left()
    gate.open()


async def test_a_stopped_child_is_no_answer(two: Two) -> None:
    gate = Gate()
    asking = await two.begin(two.ask(), gated(gate, text("never")), text("Bob was stopped."))
    await two.fake.asked(two.first_chat + 2)
    child = (await two.chain())[0]["child"]
    await two.gateway.ok("POST", f"{two.bob}/runs/{child['run_id']}/cancel")
    run = await asking.ended()
    gate.open()
    assert (outcomes(run), run.text) == ([("failed", "child_cancelled")], "Bob was stopped.")
    assert (await two.chain())[0]["state"] == "cancelled"


async def test_a_delegation_is_a_task_that_can_be_cancelled_by_itself(two: Two) -> None:
    gate = Gate()
    asking = await two.begin(two.ask(), gated(gate, text("never")), text("Without Bob, then."))
    await two.fake.asked(two.first_chat + 2)
    task = f"{two.gateway.agent}/tasks/{(await two.chain())[0]['task_id']}"
    assert (await two.gateway.ok("GET", task))["kind"] == "delegate"
    assert (await two.gateway.ok("POST", f"{task}/cancel")) == {"outcome": "accepted"}
    run = await asking.ended()
    gate.open()
    assert (outcomes(run), run.text) == ([("failed", "child_cancelled")], "Without Bob, then.")
    assert ((await two.gateway.ok("GET", task))["state"], (await two.child_turn())["state"]) == ("cancelled", "cancelled")
    assert (await two.gateway.ok("POST", f"{task}/cancel")) == {"outcome": "stale"}


async def test_a_delegation_has_its_own_time(two: Two) -> None:
    asking = await two.begin(two.ask(), WRITE, text("too late"))
    await pending(two)
    await two.gateway.advance(DELEGATE_S)
    run = await asking.ended()
    assert (outcomes(run), run.text) == ([("failed", "child_failed")], "too late")
    (item,) = await two.chain()
    assert (item["state"], item["code"], (await two.child_turn())["state"]) == ("failed", "wall_clock", "cancelled")
    assert "stopped after 45 seconds" in two.result


async def test_the_parents_deadline_ends_the_child(two: Two) -> None:
    gate = Gate()
    asking = await two.begin(two.ask(), gated(gate, text("never")), model_id="hasty")
    await two.fake.asked(two.first_chat + 2)
    await two.gateway.advance(60)
    run = await asking.ended()
    assert (run.terminal["type"], run.terminal["payload"]["code"]) == ("run.failed", "run_deadline")
    assert ((await two.chain())[0]["state"], (await two.child_turn())["state"]) in [("cancelled", "cancelled"), ("failed", "failed")]
    await two.nothing_left()
    gate.open()


async def test_an_agent_that_takes_no_message_leaves_no_conversation(two: Two) -> None:
    before = len(await two.children())
    instructions = two.gateway.root / f"data/agents/{two.other}/workspace/agent-builder.md"
    instructions.chmod(0o666)
    run = await two.run(two.ask(), text("fine"))
    instructions.chmod(0o600)
    assert outcomes(run) == [("failed", "child_failed")]
    (item,) = await two.chain()
    assert (item["state"], item["code"], "run_id" in item["child"]) == ("failed", "instructions_refused", False)
    assert len(await two.children()) == before


@pytest.mark.parametrize("name", ["agent_delegate", "agent/delegate"])
async def test_a_call_written_as_text_is_never_a_delegation(two: Two, name: str) -> None:
    written = f'{{"name": "{name}", "arguments": {{"agent_id": "{two.other}", "message": "help"}}}}'
    run = await two.run(text(written, size=400))
    assert (run.text, run.of("tool.call.proposed"), await two.chain()) == (written, [], [])
    assert len(two.chats) == 1


async def test_the_chain_of_an_unknown_conversation_is_not_there(two: Two) -> None:
    for path in (f"{two.gateway.agent}/sessions/{SYSTEM_AGENT}/subagents", f"{two.bob}/sessions/{two.conversation}/subagents"):
        assert (await two.gateway.call("GET", path)).status_code == 404


async def test_a_branch_shows_the_chain_of_what_it_inherits(two: Two) -> None:
    await two.run(two.ask(), text("yes"), text("fine"))
    branch = await two.gateway.ok("POST", f"{two.gateway.agent}/sessions/{two.conversation}/continue", {"mode": "branch"})
    path = f"{two.gateway.agent}/sessions/{branch['conversation_id']}/subagents"
    assert (await two.gateway.ok("GET", path))["items"] == await two.chain()
