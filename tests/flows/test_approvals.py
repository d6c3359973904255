"""Approvals over HTTP: what is asked, who decides, what a decision is worth, and what stays on record."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio

from agent_builder.protocol.limits import APPROVAL_S, DENY_REASON_BYTES, PREVIEW_BYTES
from tests.support.fake_ollama import FakeOllama, Step, call, text
from tests.support.gateway import Gateway, Json, RunResult
from tests.support.tool_turns import Turns, outcomes

pytestmark = pytest.mark.asyncio(loop_scope="module")
WRITE = call("file_write", path="new.txt", content="x\n")


@pytest_asyncio.fixture(loop_scope="module")
async def turns(shared: Gateway, shared_fake: FakeOllama) -> Turns:
    return await Turns.begin(shared, shared_fake)


@dataclass
class Waiting:
    """A Run that waits for a decision."""

    turns: Turns
    run: RunResult
    asked: Json
    reading: "asyncio.Task[None]"

    @property
    def path(self) -> str:
        return f"{self.turns.gateway.agent}/permissions/{self.asked['permission_id']}"

    async def decide(self, decision: str, **more: Any) -> httpx.Response:
        return await self.turns.gateway.call("POST", self.path, {"decision": decision, **more})

    async def ended(self) -> RunResult:
        await asyncio.wait_for(self.reading, 30)
        return self.run


async def asking(turns: Turns, *steps: Step, message: str = "do it") -> Waiting:
    turns.fake.script(*steps)
    accepted = await turns.gateway.submit(turns.conversation, message)
    run, reached = RunResult(accepted["run_id"], accepted["turn_id"]), asyncio.Event()

    async def read() -> None:
        async for event in turns.gateway.events(run.run_id):
            run.events.append(event)
            if event["type"] == "permission.requested":
                reached.set()

    reading = asyncio.create_task(read())
    await asyncio.wait_for(reached.wait(), 20)
    return Waiting(turns, run, run.of("permission.requested")[-1], reading)


@asynccontextmanager
async def second_client(gateway: Gateway) -> AsyncIterator[Gateway]:
    """Another browser, logged in by itself."""
    other = object.__new__(Gateway)
    other.__dict__.update(gateway.__dict__)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{gateway.port}", timeout=30, trust_env=False) as client:
        other.client = client
        await other.login()
        yield other


async def test_of_two_browsers_that_decide_at_once_exactly_one_wins(turns: Turns) -> None:
    async with second_client(turns.gateway) as other:
        for _ in range(6):
            waiting = await asking(turns, WRITE, text("Well."))
            answers = await asyncio.gather(waiting.decide("approve"), other.call("POST", waiting.path, {"decision": "deny"}))
            run = await waiting.ended()
            assert sorted(answer.status_code for answer in answers) == [200, 409]
            (won,) = [answer.json()["state"] for answer in answers if answer.status_code == 200]
            (lost,) = [answer.json()["error"]["code"] for answer in answers if answer.status_code == 409]
            assert lost == "permission_stale"
            assert [one["decision"] for one in run.of("permission.resolved")] == [{"approved": "approve", "denied": "deny"}[won]]
            assert (turns.gateway.workspace / "new.txt").exists() == (won == "approved")
            (turns.gateway.workspace / "new.txt").unlink(missing_ok=True)


async def test_both_browsers_see_what_waits_and_that_it_is_over(turns: Turns) -> None:
    async with second_client(turns.gateway) as other:
        waiting = await asking(turns, WRITE, text("Well."))
        for client in (turns.gateway, other):
            (listed,) = (await client.ok("GET", f"{client.agent}/permissions"))["items"]
            assert (listed["permission_id"], listed["state"], "diff" in listed) == (waiting.asked["permission_id"], "pending", False)
        assert [one["waiting"] for one in (await other.ok("GET", "/api/agents"))["items"]] == [1]
        assert (await other.call("POST", waiting.path, {"decision": "deny"})).status_code == 200
        await waiting.ended()
        assert [one["waiting"] for one in (await other.ok("GET", "/api/agents"))["items"]] == [0]
        assert (await turns.gateway.ok("GET", f"{turns.gateway.agent}/permissions"))["items"] == []
        seen = await turns.gateway.ok("GET", waiting.path)
        assert (seen["state"], "decided_at" in seen) == ("denied", True)


async def test_one_in_full_has_the_whole_change_where_the_event_has_its_beginning(turns: Turns) -> None:
    content = "".join(f"line {number:03} {'x' * 30}\n" for number in range(200))
    waiting = await asking(turns, call("file_write", path="new.txt", content=content), text("Well."))
    assert waiting.asked["truncated"]
    assert len(waiting.asked["preview"].encode()) <= PREVIEW_BYTES
    whole = await turns.gateway.ok("GET", waiting.path)
    assert [line for line in whole["diff"].splitlines() if line.startswith("+line")] == [f"+{line}" for line in content.splitlines()]
    assert whole["diff"].startswith(waiting.asked["preview"].removesuffix("\n…\n"))
    await waiting.decide("approve")
    await waiting.ended()
    assert (turns.gateway.workspace / "new.txt").read_text() == content


async def test_what_the_eye_does_not_see_is_spelled_out_in_the_question(turns: Turns) -> None:
    turns.file("a.py", "x = 1\r\n")
    steps = (call("file_read_text", path="a.py"), call("file_edit", path="a.py", old="x = 1", new="x = 1 # \u202e\u200b"), text("Well."))
    waiting = await asking(turns, *steps)
    assert "⟦U+202E⟧⟦U+200B⟧" in (await turns.gateway.ok("GET", waiting.path))["diff"]
    await waiting.decide("approve")
    await waiting.ended()
    assert (turns.gateway.workspace / "a.py").read_bytes() == "x = 1 # \u202e\u200b\r\n".encode()


async def test_a_second_decision_and_one_after_the_end_are_stale(turns: Turns) -> None:
    waiting = await asking(turns, WRITE, text("Well."))
    assert (await waiting.decide("deny")).status_code == 200
    assert (await waiting.decide("approve")).status_code == 409
    await waiting.ended()
    late = await waiting.decide("approve")
    assert (late.status_code, late.json()["error"]["code"]) == (409, "permission_stale")
    assert not (turns.gateway.workspace / "new.txt").exists()


@pytest.mark.parametrize("body", [
    {}, {"decision": "maybe"}, {"decision": "approve", "reason": "x"}, {"decision": "deny", "reason": "x" * (DENY_REASON_BYTES + 1)},
    {"decision": "deny", "reason": "中" * 171}, {"decision": "deny", "more": 1}, {"decision": None},
], ids=str)
async def test_an_invalid_decision_decides_nothing(turns: Turns, body: Json) -> None:
    waiting = await asking(turns, WRITE, text("Well."))
    assert (await turns.gateway.call("POST", waiting.path, body)).status_code == 400
    assert (await turns.gateway.ok("GET", waiting.path))["state"] == "pending"
    assert (await waiting.decide("deny", reason="x" * DENY_REASON_BYTES)).status_code == 200
    assert (await waiting.ended()).text == "Well."


async def test_a_permission_that_never_was_is_not_found(turns: Turns) -> None:
    path = f"{turns.gateway.agent}/permissions/{turns.conversation}"
    assert (await turns.gateway.call("GET", path)).status_code == 404
    assert (await turns.gateway.call("POST", path, {"decision": "approve"})).status_code == 404


async def test_an_approval_of_a_file_that_changed_meanwhile_is_refused_and_the_model_is_told(turns: Turns) -> None:
    file = turns.file("n.txt", "one\n")
    waiting = await asking(turns, call("file_read_text", path="n.txt"), call("file_edit", path="n.txt", old="one", new="two"), text("It was changed."))
    file.write_text("mine\n")
    answer = await waiting.decide("approve")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "permission_stale")
    run = await waiting.ended()
    assert (run.text, outcomes(run)[-1]) == ("It was changed.", ("refused", "permission_stale"))
    assert [one["decision"] for one in run.of("permission.resolved")] == ["stale"]
    assert file.read_text() == "mine\n"
    assert "Read the file again" in turns.results[-1]


async def test_without_a_decision_it_expires_and_so_does_its_run(turns: Turns) -> None:
    waiting = await asking(turns, WRITE)
    await turns.gateway.advance(APPROVAL_S)
    run = await waiting.ended()
    assert [one["decision"] for one in run.of("permission.resolved")] == ["expired"]
    assert run.terminal["payload"]["code"] == "permission_expired"
    assert (await waiting.decide("approve")).status_code == 409
    assert not (turns.gateway.workspace / "new.txt").exists()
    assert (await turns.run(text("Here."), message="still there?")).text == "Here."


async def test_the_audit_tells_question_decision_start_and_outcome_in_pages(turns: Turns) -> None:
    waiting = await asking(turns, call("file_glob", pattern="*"), WRITE, text("Well."))
    await waiting.decide("approve")
    run = await waiting.ended()
    path = f"{turns.gateway.agent}/runs/{run.run_id}/capability-audit"
    whole = await turns.gateway.ok("GET", path)
    assert [event["type"] for event in whole["items"]] == [
        "run.started", "tool.call.proposed", "tool.call.started", "tool.call.finished",
        "tool.call.proposed", "permission.requested", "permission.resolved", "tool.call.started", "tool.call.finished",
    ]
    assert whole.get("next_after_seq") is None
    read: list[Json] = []
    query = "?limit=3"
    while True:
        page = await turns.gateway.ok("GET", path + query)
        assert len(page["items"]) <= 3
        read += page["items"]
        if page.get("next_after_seq") is None:
            break
        query = f"?limit=3&after_seq={page['next_after_seq']}"
    assert read == whole["items"]


async def test_a_restart_interrupts_the_run_and_its_question_is_gone(turns: Turns) -> None:
    waiting = await asking(turns, WRITE)
    await turns.gateway.kill()
    waiting.reading.cancel()
    await asyncio.gather(waiting.reading, return_exceptions=True)
    await turns.gateway.start()
    await turns.gateway.login()
    assert (await turns.gateway.ok("GET", f"{turns.gateway.agent}/permissions"))["items"] == []
    assert (await waiting.decide("approve")).status_code in (404, 409)
    (turn,) = (await turns.gateway.page(turns.conversation))["turns"]
    assert turn["state"] == "interrupted"
    audit = await turns.gateway.ok("GET", f"{turns.gateway.agent}/runs/{waiting.run.run_id}/capability-audit")
    assert [event["payload"]["decision"] for event in audit["items"] if event["type"] == "permission.resolved"] == ["stale"]
    assert not (turns.gateway.workspace / "new.txt").exists()
    turns.fake.forget_script()
    assert (await turns.run(text("Here."), message="still there?")).text == "Here."
