import asyncio

import pytest

from agent_builder.protocol.errors import InvalidRequest, NotFound, PermissionExpired, PermissionStale
from agent_builder.protocol.events import Payload, PermissionRequested, PermissionResolved
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import DENY_REASON_BYTES, PERMISSIONS_KEPT
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.protocol.toolspec import ToolSpec
from agent_builder.tools.effects import EffectStale
from agent_builder.tools.permissions import Decision, PermissionRequest, Permissions, policy
from tests.support.clock import MovableClock


class Asking:
    """Permissions with one question after another, and the events they made."""

    def __init__(self) -> None:
        self.clock = MovableClock()
        self.permissions = Permissions(self.clock)
        self.events: list[Payload] = []
        self.run_id = new_id()
        self.target_changed = False

    async def emit(self, *payloads: Payload) -> None:
        self.events += [payload for payload in payloads if payload.durable]

    def check(self) -> None:
        if self.target_changed:
            raise EffectStale("n.md was changed meanwhile")

    async def ask(self) -> tuple[str, asyncio.Task[Decision]]:
        request = PermissionRequest(
            self.run_id, "call", "file/edit", "digest", "short", True, "the whole diff", self.clock.now(), 600.0, self.check
        )
        task = asyncio.create_task(self.permissions.ask(request, self.emit))
        count = len(self.events)
        while len(self.events) == count:
            await asyncio.sleep(0)
        asked = self.events[-1]
        assert isinstance(asked, PermissionRequested)
        return asked.permission_id, task

    def resolutions(self) -> list[str]:
        return [event.decision for event in self.events if isinstance(event, PermissionResolved)]


@pytest.fixture
def asking() -> Asking:
    return Asking()


def test_policy_is_total_and_denies_what_it_does_not_know() -> None:
    assert {spec.id: policy(spec) for spec in CATALOG.specs} == {
        "file/read_text": "allow", "file/stat": "allow", "file/glob": "allow", "file/grep": "allow", "file/edit": "ask", "file/write": "ask",
        "exec/run": "ask", "agent/delegate": "ask", "builtin/echo": "allow",
    }
    assert policy(None) == "deny"
    assert policy(ToolSpec("x/y", 1, "", {}, (), "perhaps", 1)) == "deny"


async def test_an_approval_is_the_answer(asking: Asking) -> None:
    permission_id, task = await asking.ask()
    (pending,) = asking.permissions.pending()
    assert (pending.permission_id, pending.state, pending.diff) == (permission_id, "pending", None)
    decided = await asking.permissions.decide(permission_id, "approve")
    assert (decided.state, decided.diff, decided.decided_at is not None) == ("approved", "the whole diff", True)
    assert await task == Decision(True)
    assert asking.permissions.pending() == []
    assert asking.resolutions() == ["approve"]


async def test_a_denial_carries_the_operators_words(asking: Asking) -> None:
    permission_id, task = await asking.ask()
    await asking.permissions.decide(permission_id, "deny", "x" * DENY_REASON_BYTES)
    assert await task == Decision(False, reason="x" * DENY_REASON_BYTES)
    assert asking.resolutions() == ["deny"]


async def test_an_invalid_decision_changes_nothing(asking: Asking) -> None:
    permission_id, task = await asking.ask()
    for decision, reason in (("maybe", None), ("approve", "because"), ("deny", "x" * (DENY_REASON_BYTES + 1)), ("deny", "\ud800")):
        with pytest.raises(InvalidRequest):
            await asking.permissions.decide(permission_id, decision, reason)
    with pytest.raises(NotFound):
        await asking.permissions.decide(new_id(), "deny")
    await asking.permissions.decide(permission_id, "approve")
    assert (await task).approved


async def test_of_two_decisions_at_once_one_counts(asking: Asking) -> None:
    permission_id, task = await asking.ask()
    ends = await asyncio.gather(
        *(asking.permissions.decide(permission_id, decision) for decision in ("approve", "approve", "deny")), return_exceptions=True
    )
    assert [isinstance(end, PermissionStale) for end in ends] == [False, True, True]
    assert (await task).approved
    with pytest.raises(PermissionStale):
        await asking.permissions.decide(permission_id, "deny")
    assert asking.resolutions() == ["approve"]


async def test_an_approval_of_a_changed_target_is_stale(asking: Asking) -> None:
    permission_id, task = await asking.ask()
    asking.target_changed = True
    with pytest.raises(PermissionStale, match="changed meanwhile"):
        await asking.permissions.decide(permission_id, "approve")
    assert await task == Decision(False, stale="n.md was changed meanwhile")
    assert asking.permissions.get(permission_id).state == "stale"
    assert asking.resolutions() == ["stale"]


async def test_a_changed_target_can_still_be_denied(asking: Asking) -> None:
    permission_id, task = await asking.ask()
    asking.target_changed = True
    await asking.permissions.decide(permission_id, "deny")
    assert await task == Decision(False)


async def test_without_a_decision_it_expires(asking: Asking) -> None:
    permission_id, task = await asking.ask()
    while not task.done():
        asking.clock.advance(600)
        await asyncio.sleep(0)
    with pytest.raises(PermissionExpired):
        await task
    assert asking.permissions.get(permission_id).state == "expired"
    with pytest.raises(PermissionStale):
        await asking.permissions.decide(permission_id, "approve")
    assert asking.resolutions() == ["expired"]


async def test_the_end_of_its_run_makes_it_stale(asking: Asking) -> None:
    permission_id, task = await asking.ask()
    asking.permissions.close_run(new_id())
    assert asking.permissions.get(permission_id).state == "pending"
    asking.permissions.close_run(asking.run_id)
    with pytest.raises(PermissionStale):
        await asking.permissions.decide(permission_id, "approve")
    assert not (await task).approved
    assert asking.resolutions() == ["stale"]


async def test_a_cancelled_run_resolves_its_question_once(asking: Asking) -> None:
    permission_id, task = await asking.ask()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asking.permissions.get(permission_id).state == "stale"
    assert asking.resolutions() == ["stale"]


async def test_a_run_that_ends_during_an_approval_wins(asking: Asking) -> None:
    permission_id, task = await asking.ask()
    deciding = asyncio.create_task(asking.permissions.decide(permission_id, "approve"))
    await asyncio.sleep(0)
    asking.permissions.close_run(asking.run_id)
    with pytest.raises(PermissionStale):
        await deciding
    assert not (await task).approved


async def test_at_most_64_decided_ones_are_remembered(asking: Asking) -> None:
    ids = []
    for _ in range(PERMISSIONS_KEPT + 1):
        permission_id, task = await asking.ask()
        ids.append(permission_id)
        await asking.permissions.decide(permission_id, "deny")
        await task
    with pytest.raises(NotFound):
        asking.permissions.get(ids[0])
    assert asking.permissions.get(ids[1]).state == "denied"
