"""Conversations over HTTP: many clients at once, branches and their parents, pages, and sends that are repeated."""

import asyncio
from collections import Counter
from uuid import uuid4

import pytest

from agent_builder.protocol.limits import CONVERSATIONS_PER_AGENT, TURNS_PER_PAGE
from tests.support.fake_ollama import FakeOllama, Gate, begun, call, gated, prefill, text
from tests.support.followed import Followed, begin, nothing_left
from tests.support.gateway import SYSTEM_AGENT, Gateway, Json, sse
from tests.support.raw_stream import journal

pytestmark = pytest.mark.asyncio(loop_scope="module")
PROFILE = "streams = 4\n"
WAYS = 20


def code_of(response: object) -> str:
    return response.json()["error"]["code"] if response.status_code >= 400 else str(response.status_code)  # type: ignore[attr-defined]


def session(gateway: Gateway, conversation: str, rest: str = "") -> str:
    return f"{gateway.agent}/sessions/{conversation}{rest}"


async def talk(gateway: Gateway, fake: FakeOllama, conversation: str, *words: str) -> list[str]:
    """Completed Turns `question <word>`, `answer <word>`; gives their Runs."""
    runs = []
    for word in words:
        fake.script(text(f"answer {word}"))
        runs.append((await gateway.run(conversation, f"question {word}")).run_id)
    return runs


async def said(gateway: Gateway, conversation: str) -> list[tuple[str, str, str | None]]:
    turns = (await gateway.page(conversation))["turns"]
    return [(turn["state"], turn["user_text"], turn.get("assistant_text")) for turn in turns]


def asked(fake: FakeOllama) -> list[str]:
    """The newest request's messages without the system message."""
    return [str(message["content"]) for message in fake.chats[-1]["messages"][1:]]


# many at once ---------------------------------------------------------------------------------------------------------


async def test_of_twenty_sends_at_once_one_is_taken(shared: Gateway, shared_fake: FakeOllama) -> None:
    gate, conversation = Gate(), await shared.new_conversation()
    shared_fake.script(gated(gate, text("end"), before=begun("begin")))
    before = len(shared_fake.chats)
    sends = [shared.call("POST", session(shared, conversation, "/runs"), {"message": f"text {number}"}) for number in range(WAYS)]
    answers = await asyncio.gather(*sends)
    assert Counter(map(code_of, answers)) == {"202": 1, "conversation_busy": WAYS - 1}
    (taken,) = (number for number, answer in enumerate(answers) if answer.status_code == 202)
    run = Followed(shared, conversation, answers[taken].json())
    gate.open()
    await run.end()
    assert await said(shared, conversation) == [("completed", f"text {taken}", "beginend")]
    assert len(shared_fake.chats) == before + 1


async def test_twenty_sends_with_one_request_id_are_one_turn(shared: Gateway, shared_fake: FakeOllama) -> None:
    conversation, request = await shared.new_conversation(), str(uuid4())
    body = {"message": "hello", "client_request_id": request}
    answers = await asyncio.gather(*[shared.call("POST", session(shared, conversation, "/runs"), body) for _ in range(WAYS)])
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.text for answer in answers}) == 1
    await Followed(shared, conversation, answers[0].json()).end()
    assert await said(shared, conversation) == [("completed", "hello", "ok")]


@pytest.mark.parametrize("rounds", range(6))
async def test_a_send_beside_renames_branches_and_deletions_has_one_consistent_outcome(shared: Gateway, shared_fake: FakeOllama, rounds: int) -> None:
    conversation = await shared.new_conversation()
    await talk(shared, shared_fake, conversation, "one")
    path = session(shared, conversation)
    work = [
        shared.call("POST", f"{path}/runs", {"message": "next"}), shared.call("PATCH", path, {"title": "renamed"}),
        shared.call("POST", f"{path}/continue", {"mode": "branch"}), shared.call("DELETE", path),
        shared.call("GET", path), shared.call("POST", f"{path}/runs", {"message": "other"}),
    ]
    order = work[rounds:] + work[:rounds]
    answers = await asyncio.gather(*order)
    assert {code_of(answer) for answer in answers} <= {"200", "201", "202", "204", "conversation_busy", "not_found"}
    by_method = {(answer.request.method, answer.request.url.path.rsplit("/", 1)[-1]): answer for answer in answers}
    deleted = by_method["DELETE", conversation].status_code == 204
    accepted = [answer.json() for answer in answers if answer.status_code == 202]
    if deleted:
        assert (await shared.call("GET", path)).status_code == 404
        for one in accepted:
            assert (await shared.call("GET", f"{shared.agent}/runs/{one['run_id']}/events")).status_code == 404
    else:
        await Followed(shared, conversation, accepted[0]).end()
        assert [turn[0] for turn in await said(shared, conversation)] == ["completed", "completed"]
    branched = by_method["POST", "continue"]
    if branched.status_code == 201:
        shown = await said(shared, branched.json()["conversation_id"])
        sent = [("completed", message, "ok") for message in ("next", "other")]
        assert shown[0] == ("completed", "question one", "answer one") and shown[1:] in ([], *([one] for one in sent))  # the send may have ended before
    await nothing_left(shared)


async def test_twenty_creations_at_ninety_nine_make_one(shared: Gateway, shared_fake: FakeOllama) -> None:
    there = len((await shared.ok("GET", f"{shared.agent}/sessions"))["items"])
    made = [await shared.new_conversation() for _ in range(CONVERSATIONS_PER_AGENT - 1 - there)]
    source = made[0]
    await talk(shared, shared_fake, source, "one")
    answers = await asyncio.gather(*[
        shared.call("POST", session(shared, source, "/continue"), {"mode": "branch"}) if number % 3 == 0
        else shared.call("POST", f"{shared.agent}/sessions", {}) for number in range(WAYS)
    ])
    assert Counter(map(code_of, answers)) == {"201": 1, "conversation_limit": WAYS - 1}
    assert "delete some" in next(answer for answer in answers if answer.status_code == 409).json()["error"]["message"]
    assert len((await shared.ok("GET", f"{shared.agent}/sessions"))["items"]) == CONVERSATIONS_PER_AGENT
    await shared.ok("DELETE", session(shared, made.pop()))
    assert (await shared.call("POST", f"{shared.agent}/sessions", {})).status_code == 201
    for row in (await shared.ok("GET", f"{shared.agent}/sessions"))["items"]:
        await shared.ok("DELETE", session(shared, row["conversation_id"]))


# deletion while it runs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["streaming", "evaluating", "approving"])
async def test_a_deletion_waits_for_the_end_and_then_leaves_nothing(shared: Gateway, shared_fake: FakeOllama, phase: str) -> None:
    gate, conversation = Gate(), await shared.new_conversation()
    (shared_run,) = await talk(shared, shared_fake, conversation, "one")
    left = len(shared_fake.left)
    step, reached = {
        "streaming": (gated(gate, text("never"), before=begun("begin")), "assistant.block.delta"),
        "evaluating": (prefill(gate), "model.transport.attempt.started"),
        "approving": (call("file_write", path="new.txt", content="x"), "permission.requested"),
    }[phase]
    shared_fake.script(step)
    run = await begin(shared, conversation=conversation)
    await run.until(reached)
    refused = await shared.call("DELETE", session(shared, conversation))
    assert (refused.status_code, code_of(refused), refused.json()["error"]["retryable"]) == (409, "conversation_busy", True)
    branch = await shared.call("POST", session(shared, conversation, "/continue"), {"mode": "branch"})
    assert code_of(branch) == "conversation_busy"
    await run.cancel()
    await run.end()
    if phase != "approving":
        await shared_fake.closed(left + 1)
    await shared.ok("DELETE", session(shared, conversation))
    gate.open()
    await nothing_left(shared)
    for path in (*(f"/runs/{one}/{what}" for one in (run.run_id, shared_run) for what in ("events", "replay", "context")), f"/sessions/{conversation}"):
        assert (await shared.call("GET", f"{shared.agent}{path}")).status_code == 404, path
    several = [item async for item in _several(shared, run.run_id)]
    assert [item["kind"] for item in several] == ["gone"]
    assert not (shared.workspace / "new.txt").exists()
    assert (await shared.ok("GET", "/health"))["active_runs"] == 0


async def _several(gateway: Gateway, run_id: str):  # type: ignore[no-untyped-def]
    async with gateway.client.stream("GET", f"/api/events?run={SYSTEM_AGENT}/{run_id}@0") as response:
        async for item in sse(response):
            yield item


# branches -----------------------------------------------------------------------------------------------------------------


async def test_a_branch_outlives_its_parent_and_a_parent_its_branch(shared: Gateway, shared_fake: FakeOllama) -> None:
    parent = await shared.new_conversation()
    runs = await talk(shared, shared_fake, parent, "one", "two", "three")
    inherited = await said(shared, parent)
    branch = (await shared.ok("POST", session(shared, parent, "/continue"), {"mode": "branch"}))["conversation_id"]
    assert await said(shared, branch) == inherited
    await talk(shared, shared_fake, branch, "four")
    history = [half for word in ("one", "two", "three") for half in (f"question {word}", f"answer {word}")]
    assert asked(shared_fake) == [*history, "question four"]
    assert await said(shared, parent) == inherited
    await shared.ok("DELETE", session(shared, parent))
    for run in runs:
        assert (await shared.call("GET", f"{shared.agent}/runs/{run}/events")).status_code == 404
    assert (await said(shared, branch))[:3] == inherited
    second = (await shared.ok("POST", session(shared, branch, "/continue"), {"mode": "branch"}))["conversation_id"]
    await shared.restart()
    assert (await said(shared, branch))[:3] == inherited
    await talk(shared, shared_fake, second, "five")
    assert asked(shared_fake) == [*history, "question four", "answer four", "question five"]
    await shared.ok("DELETE", session(shared, second))
    await talk(shared, shared_fake, branch, "six")
    assert asked(shared_fake) == [*history, "question four", "answer four", "question six"]


async def test_a_branch_starts_at_the_completed_end_and_only_there(shared: Gateway, shared_fake: FakeOllama) -> None:
    conversation = await shared.new_conversation()
    nothing = await shared.call("POST", session(shared, conversation, "/continue"), {"mode": "branch"})
    assert (nothing.status_code, code_of(nothing)) == (400, "invalid_request")
    await talk(shared, shared_fake, conversation, "one")
    shared_fake.script(text(""))
    failed = await shared.run(conversation, "this fails")
    assert failed.terminal["type"] == "run.failed"
    same = await shared.ok("POST", session(shared, conversation, "/continue"), {"mode": "continue"})
    assert same["conversation_id"] == conversation
    branch = (await shared.ok("POST", session(shared, conversation, "/continue"), {"mode": "branch"}))["conversation_id"]
    assert await said(shared, branch) == [("completed", "question one", "answer one")]
    assert [state for state, *_ in await said(shared, conversation)] == ["completed", "failed"]


# repeated sends and preparation ---------------------------------------------------------------------------------------------


async def test_the_same_request_gives_the_same_turn_while_it_runs_after_its_end_and_after_a_restart(shared: Gateway, shared_fake: FakeOllama) -> None:
    gate, conversation, request = Gate(), await shared.new_conversation(), str(uuid4())
    body = {"message": "hello", "client_request_id": request}
    shared_fake.script(gated(gate, text("end"), before=begun("begin")))
    first = await shared.ok("POST", session(shared, conversation, "/runs"), body)
    run = Followed(shared, conversation, first)
    await run.until("assistant.block.delta")
    assert await shared.ok("POST", session(shared, conversation, "/runs"), body) == first
    gate.open()
    await run.end()
    assert await shared.ok("POST", session(shared, conversation, "/runs"), body) == first
    await shared.restart()
    assert await shared.ok("POST", session(shared, conversation, "/runs"), body) == first
    other = await shared.call("POST", session(shared, conversation, "/runs"), {**body, "message": "another"})
    assert (other.status_code, code_of(other)) == (409, "idempotency_mismatch")
    assert [turn[1] for turn in await said(shared, conversation)] == ["hello"]
    elsewhere = await shared.new_conversation()
    assert (await shared.ok("POST", session(shared, elsewhere, "/runs"), body))["run_id"] != first["run_id"]
    await nothing_left(shared)


async def preparation(gateway: Gateway, conversation: str) -> Json:
    return dict(await gateway.ok("GET", session(gateway, conversation, "/preparation")))


async def until_idle(gateway: Gateway, conversation: str) -> None:
    async with asyncio.timeout(10):
        while (await preparation(gateway, conversation))["state"] != "idle":
            await asyncio.sleep(0.01)


async def summarising(gateway: Gateway, fake: FakeOllama, gate: Gate) -> Followed:
    """A Turn whose admission waits for the summary that its compaction needs."""
    conversation = await gateway.new_conversation()
    await talk(gateway, fake, conversation, *(f"{number} {'word ' * 40}" for number in range(3)))
    fake.summary, before = gated(gate, text("Notes.")), len(fake.summaries)
    run = await begin(gateway, conversation=conversation, compact=True)
    await fake._until(lambda: len(fake.summaries) > before)
    return run


async def test_an_operation_keeps_its_id_from_preparation_through_the_run(shared: Gateway, shared_fake: FakeOllama) -> None:
    summary, answer, kept = Gate(), Gate(), shared_fake.summary
    run = await summarising(shared, shared_fake, summary)
    assert await preparation(shared, run.conversation) == {"state": "preparing", "operation_id": run.operation_id}
    assert "run.started" not in run.types
    assert await journal(shared, run.run_id) == []
    busy = await shared.call("POST", session(shared, run.conversation, "/runs"), {"message": "next"})
    assert code_of(busy) == "conversation_busy"
    shared_fake.script(gated(answer, text("end"), before=begun("begin")))
    summary.open()
    await run.until("assistant.block.delta")
    assert await preparation(shared, run.conversation) == {"state": "running", "operation_id": run.operation_id}
    answer.open()
    await run.end()
    await until_idle(shared, run.conversation)
    late = await shared.ok("POST", session(shared, run.conversation, "/preparation/cancel"), {"operation_id": run.operation_id})
    assert late == {"outcome": "stale"}
    shared_fake.summary = kept


async def test_a_preparation_is_cancelled_by_its_id_and_the_old_id_does_not_touch_the_next_one(shared: Gateway, shared_fake: FakeOllama) -> None:
    summary, kept = Gate(), shared_fake.summary
    run = await summarising(shared, shared_fake, summary)
    cancel = session(shared, run.conversation, "/preparation/cancel")
    assert await shared.ok("POST", cancel, {"operation_id": str(uuid4())}) == {"outcome": "stale"}
    assert (await preparation(shared, run.conversation))["state"] == "preparing"
    assert await shared.ok("POST", cancel, {"operation_id": run.operation_id}) == {"outcome": "accepted"}
    await run.end()
    assert run.terminal["type"] == "run.cancelled"
    await until_idle(shared, run.conversation)
    summary.open()
    shared_fake.summary = kept
    gate = Gate()
    shared_fake.script(gated(gate, text("end"), before=begun("begin")))
    second = await begin(shared, conversation=run.conversation)
    await second.until("assistant.block.delta")
    assert await shared.ok("POST", cancel, {"operation_id": run.operation_id}) == {"outcome": "stale"}
    gate.open()
    await second.end()
    assert second.terminal["type"] == "run.completed"


# pages ------------------------------------------------------------------------------------------------------------------------


async def test_pages_lead_through_all_turns_and_their_cursors_end_with_a_rename_or_a_restart(shared: Gateway, shared_fake: FakeOllama) -> None:
    conversation, other = await shared.new_conversation(), await shared.new_conversation()
    total = TURNS_PER_PAGE + 5
    for number in range(total):
        await shared.run(conversation, f"question {number}")
    newest = await shared.page(conversation)
    assert [turn["user_text"] for turn in newest["turns"]] == [f"question {number}" for number in range(5, total)]
    cursor = newest["page"]["next_before_cursor"]

    async def before(value: str, of: str = conversation) -> object:
        return await shared.client.get(session(shared, of), params={"before": value})

    oldest = (await before(cursor)).json()  # type: ignore[attr-defined]
    assert [turn["user_text"] for turn in oldest["turns"]] == [f"question {number}" for number in range(5)]
    assert "next_before_cursor" not in oldest["page"]
    await shared.run(conversation, "one more")
    assert (await before(cursor)).json()["turns"] == oldest["turns"]  # type: ignore[attr-defined]
    for wrong in (cursor[:-1] + ("A" if cursor[-1] != "A" else "B"), "nonsense", cursor + "x"):
        assert code_of(await before(wrong)) == "invalid_session_cursor"
    assert code_of(await before(cursor, other)) == "invalid_session_cursor"
    await shared.ok("PATCH", session(shared, conversation), {"title": "renamed"})
    assert code_of(await before(cursor)) == "invalid_session_cursor"
    fresh = (await shared.page(conversation))["page"]["next_before_cursor"]
    await shared.restart()
    assert code_of(await before(fresh)) == "invalid_session_cursor"
    assert len((await shared.page(conversation))["turns"]) == TURNS_PER_PAGE


async def test_the_list_has_the_newest_activity_first_and_marks_what_runs(shared: Gateway, shared_fake: FakeOllama) -> None:
    gate = Gate()
    first, second = await shared.new_conversation(), await shared.new_conversation()
    shared_fake.script(gated(gate, text("end"), before=begun("begin")))
    run = await begin(shared, conversation=first)
    rows = (await shared.ok("GET", f"{shared.agent}/sessions"))["items"]
    assert [row["conversation_id"] for row in rows][:2] == [first, second]
    assert [row.get("running_run_id") for row in rows][:2] == [run.run_id, None]
    gate.open()
    await run.end()
    await talk(shared, shared_fake, second, "one")
    rows = (await shared.ok("GET", f"{shared.agent}/sessions"))["items"]
    assert [row["conversation_id"] for row in rows][:2] == [second, first]
    assert all("running_run_id" not in row for row in rows)
