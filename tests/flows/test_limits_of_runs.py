"""What bounds Runs: their number, their time, and that no Conversation waits for another."""

import asyncio
import sqlite3

import pytest

from agent_builder.protocol.limits import ACTIVE_RUNS, LIVE_RUNS_KEPT
from tests.support.fake_ollama import FakeOllama, Gate, begun, call, frame, frames, gated, text
from tests.support.followed import Followed, begin, nothing_left
from tests.support.gateway import SYSTEM_AGENT, Gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")
PROFILE = "streams = 4\n[models.timeouts]\nfirst_frame_s = 500\nidle_s = 500\ncall_s = 1500\n[models.budgets]\nrun_s = 100\napproval_s = 300\n"
ENTRIES = (
    '\n[[models]]\nmodel_id = "strict"\nlabel = "strict"\nendpoint = "http://127.0.0.1:$PORT"\nprovider_model = "qwen3.5:2b"\nthink = false\n'
    "[models.budgets]\nrun_s = 100\napproval_s = 0\n"
)


async def blocked(gateway: Gateway, fake: FakeOllama, gate: Gate, conversation: str | None = None, **more: object) -> Followed:
    fake.script(gated(gate, text("end"), before=begun("begin")))
    run = await begin(gateway, conversation=conversation, **more)
    await run.until("model.transport.attempt.finished")
    return run


async def turns_begun(gateway: Gateway) -> int:
    """Transactions in which a Turn began; those of Runs that are under way go on meanwhile."""
    return [name.startswith("QueryEngine.") for name in (await gateway.command(commits=True))["commits"]].count(True)


async def decide(gateway: Gateway, run: Followed, decision: str = "approve") -> None:
    asked = await run.until("permission.requested")
    await gateway.ok("POST", f"{gateway.agent}/permissions/{asked['payload']['permission_id']}", {"decision": decision})


async def test_four_runs_of_all_agents_together_and_the_fifth_leaves_no_trace(shared: Gateway, shared_fake: FakeOllama) -> None:
    gate = Gate()
    other = (await shared.ok("POST", "/api/agents", {"name": "Other"}))["agent_id"]
    theirs = await shared.new_conversation(other)
    runs = [await blocked(shared, shared_fake, gate) for _ in range(ACTIVE_RUNS - 1)]
    shared_fake.script(gated(gate, text("end"), before=begun("begin")))
    await shared.ok("POST", f"/api/agents/{other}/sessions/{theirs}/runs", {"message": "hello"})
    late = await shared.new_conversation()
    before = await turns_begun(shared)
    refused = await shared.call("POST", f"{shared.agent}/sessions/{late}/runs", {"message": "one too many"})
    assert (refused.status_code, refused.json()["error"]["code"], refused.json()["error"]["retryable"]) == (429, "run_limit", True)
    assert await turns_begun(shared) == before
    assert (await shared.page(late))["turns"] == []
    assert (await shared.ok("GET", f"{shared.agent}/sessions/{late}/preparation"))["state"] == "idle"
    await runs[0].cancel()
    await runs[0].end()
    async with asyncio.timeout(10):
        while (await shared.call("POST", f"{shared.agent}/sessions/{late}/runs", {"message": "now there is room"})).status_code == 429:
            await asyncio.sleep(0.01)  # the slot is free when nothing of the Run is left
    gate.open()
    for run in runs[1:]:
        assert (await run.end()).text == "beginend"
    await nothing_left(shared)
    await shared.ok("DELETE", f"/api/agents/{other}")


async def test_conversations_never_wait_for_each_other(shared: Gateway, shared_fake: FakeOllama) -> None:
    """Not in their Runs, and not in what is asked about them: one is blocked and another one driven."""
    gate = Gate()
    held, free = await shared.new_conversation(), await shared.new_conversation()
    run = await blocked(shared, shared_fake, gate, held)
    for number in range(3):
        shared_fake.script(text(f"answer {number}"))
        assert (await shared.run(free, f"question {number}")).text == f"answer {number}"
    await shared.ok("PATCH", f"{shared.agent}/sessions/{free}", {"title": "driven"})
    branch = (await shared.ok("POST", f"{shared.agent}/sessions/{free}/continue", {"mode": "branch"}))["conversation_id"]
    await shared.ok("DELETE", f"{shared.agent}/sessions/{free}")
    assert (await shared.run(branch, "and here?")).text == "ok"
    marks = {row["conversation_id"]: row.get("running_run_id") for row in (await shared.ok("GET", f"{shared.agent}/sessions"))["items"]}
    assert (marks[held], marks[branch]) == (run.run_id, None)
    gate.open()
    assert (await run.end()).text == "beginend"


async def test_a_run_ends_at_its_deadline_and_not_before(shared: Gateway, shared_fake: FakeOllama) -> None:
    run = await blocked(shared, shared_fake, Gate())
    await shared.advance(90)
    await shared.ok("GET", "/health")
    assert "run.failed" not in run.types
    await shared.advance(11)
    await run.end()
    assert (run.terminal["payload"]["code"], run.terminal["payload"]["retryable"]) == ("run_deadline", True)
    assert run.terminal["payload"]["elapsed_ms"] >= 100_000
    await shared_fake.closed(1)
    await nothing_left(shared)


async def test_the_clock_stands_still_while_the_operator_decides(shared: Gateway, shared_fake: FakeOllama) -> None:
    shared_fake.script(call("file_write", path="slowly.txt", content="x"), text("written"))
    run = await begin(shared)
    await run.until("permission.requested")
    await shared.advance(290)
    await decide(shared, run)
    await run.end()
    assert (run.terminal["type"], run.text) == ("run.completed", "written")
    (shared.workspace / "slowly.txt").unlink()


async def test_two_approvals_share_one_time_and_its_end_is_the_end_of_the_run(shared: Gateway, shared_fake: FakeOllama) -> None:
    shared_fake.script(call("file_write", path="one.txt", content="x"), call("file_write", path="two.txt", content="x"))
    run = await begin(shared)
    await run.until("permission.requested")
    await shared.advance(200)
    await decide(shared, run, "deny")
    second = await run.until("permission.requested", times=2)
    await shared.advance(99)
    pending = (await shared.ok("GET", f"{shared.agent}/permissions"))["items"]
    assert [one["permission_id"] for one in pending] == [second["payload"]["permission_id"]]
    await shared.advance(2)
    await run.end()
    assert [told["decision"] for told in run.of("permission.resolved")] == ["deny", "expired"]
    assert run.terminal["payload"]["code"] == "permission_expired"
    assert [(told["outcome"], told["code"]) for told in run.of("tool.call.finished")] == [("denied", "denied"), ("refused", "permission_expired")]
    late = await shared.call("POST", f"{shared.agent}/permissions/{second['payload']['permission_id']}", {"decision": "approve"})
    assert (late.status_code, late.json()["error"]["code"]) == (409, "permission_stale")
    assert not list(shared.workspace.glob("*.txt"))
    await nothing_left(shared)


@pytest.mark.parametrize("decided", [True, False])
async def test_with_an_approval_time_of_zero_the_wait_counts_against_the_run(shared: Gateway, shared_fake: FakeOllama, decided: bool) -> None:
    shared_fake.script(call("file_write", path="new.txt", content="x"), text("written"))
    run = await begin(shared, model_id="strict")
    await run.until("permission.requested")
    await shared.advance(60)
    if decided:
        await decide(shared, run)
        assert (await run.end()).text == "written"
        (shared.workspace / "new.txt").unlink()
        return
    await shared.advance(40.5)
    await run.end()
    assert run.terminal["payload"]["code"] == "run_deadline"
    assert [told["decision"] for told in run.of("permission.resolved")] == ["stale"]
    assert not (shared.workspace / "new.txt").exists()


async def test_an_answer_of_many_frames_costs_the_journal_no_more_than_one_of_few(shared: Gateway, shared_fake: FakeOllama) -> None:
    """Nothing is written per token, frame or tick."""
    counts = []
    for step in (text("short"), frames(*[frame(content=f"{number} ") for number in range(1500)])):
        before = len((await shared.command(commits=True))["commits"])
        shared_fake.script(step)
        await shared.run(await shared.new_conversation(), "hello")
        counts.append(len((await shared.command(commits=True))["commits"]) - before)
    assert counts[0] == counts[1]


async def test_the_sixty_fifth_newer_run_sends_a_run_from_memory_to_the_journal(shared: Gateway, shared_fake: FakeOllama) -> None:
    shared_fake.script(text("the first"))
    conversation = await shared.new_conversation()
    first = await shared.run(conversation, "hello")
    durable = [event for event in first.events if event["durability"] == "durable"]
    for _ in range(LIVE_RUNS_KEPT - 1):
        await shared.run(conversation, "hello")
    again = [item async for item in shared.events(first.run_id, controls=True)]
    assert again == first.events
    await shared.run(conversation, "hello")
    await shared.run(conversation, "hello")
    replayed = [item async for item in shared.events(first.run_id, controls=True)]
    assert [item["kind"] for item in replayed if item["type"] == "control"] == ["gap", "snapshot"]
    assert [item for item in replayed if item["type"] != "control"] == durable


async def test_a_run_whose_events_are_no_longer_kept_is_shown_from_its_turn(shared: Gateway, shared_fake: FakeOllama) -> None:
    """As after 256 newer Runs: the journal of this one is taken away by hand, and the Gateway started anew."""
    shared_fake.script(text("long ago"))
    run = await shared.run(await shared.new_conversation(), "hello")
    await shared.stop()
    with sqlite3.connect(shared.root / "data/agents" / SYSTEM_AGENT / "state.sqlite") as state:
        state.execute("PRAGMA foreign_keys=ON")
        assert state.execute("DELETE FROM journal_runs WHERE run_id = ?", (run.run_id,)).rowcount == 1
    state.close()
    await shared.start()
    await shared.login()
    shown = [item async for item in shared.events(run.run_id, controls=True)]
    assert [item["kind"] for item in shown] == ["gap", "snapshot"]
    assert "to_seq" not in shown[0]
    assert shown[1]["turn"]["assistant_text"] == "long ago"
    assert await shared.ok("GET", f"{shared.agent}/runs/{run.run_id}/replay") == {"items": []}
