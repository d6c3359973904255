import pytest

from agent_builder.llm.frames import RawCall
from agent_builder.llm.proposals import propose, propose_written
from agent_builder.llm.text_calls import written_call
from agent_builder.protocol.delegation import ChildEnd, Delegation, DelegationRefused, OtherAgent
from agent_builder.protocol.events import RunIdentity
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import (
    DELEGATE_ANSWER_BYTES,
    OTHER_AGENT_NAME_CHARS,
    OTHER_AGENTS_SHOWN,
    PREVIEW_BYTES,
)
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.tools.calls import CapabilityCall, CapabilityResult
from agent_builder.tools.delegate import DELEGATE, Delegating, other_agent_lines, plan_delegate, result_of
from agent_builder.tools.effects import Effect, EffectStale

BOB = OtherAgent(new_id(), "Bob", 1)
ME = RunIdentity(agent_id=new_id(), conversation_id=new_id(), turn_id=new_id(), run_id=new_id())


class Child:
    """The port, with one other Agent."""

    def __init__(self, end: ChildEnd | None = None) -> None:
        self.agent, self.room, self.end = BOB, True, end
        self.asked: list[Delegation] = []

    def target(self, agent_id: str) -> OtherAgent:
        if agent_id != self.agent.agent_id:
            raise DelegationRefused("no_such_agent", "no active Agent has this id")
        return self.agent

    def require_room(self, asking: RunIdentity) -> None:
        if not self.room:
            raise DelegationRefused("run_limit", "no slot")

    async def __call__(self, delegation: Delegation) -> ChildEnd:
        self.asked.append(delegation)
        if self.end is None:
            raise DelegationRefused("storage_full", "The disk is full.")
        return self.end


def a_call(message: str = "help", agent_id: str = BOB.agent_id) -> CapabilityCall:
    return CapabilityCall("call_1", DELEGATE, {"agent_id": agent_id, "message": message}, False)


def plan(child: Child, message: str = "help", agent_id: str = BOB.agent_id) -> Effect | CapabilityResult:
    return plan_delegate(a_call(message, agent_id), Delegating(ME, 45.0, "model", child))


def planned(child: Child, message: str = "help") -> Effect:
    effect = plan(child, message)
    assert isinstance(effect, Effect)
    return effect


def ended(state: str = "completed", **more: object) -> ChildEnd:
    return ChildEnd(state, "task-1", "conversation-1", "run-1", **more)  # type: ignore[arg-type]


async def test_the_approved_message_is_the_one_that_is_sent() -> None:
    child = Child(ended(answer="Five."))
    result = await planned(child, "What is\n2 + 3?").act()
    assert child.asked == [Delegation(ME, BOB, "What is\n2 + 3?", 45.0, "model")]
    assert (result.outcome, result.text) == ("ok", 'The Agent "Bob" answered:\n\nFive.')
    assert result.receipt["run_id"] == "run-1"


def test_all_of_the_message_is_shown_with_what_the_eye_does_not_see() -> None:
    effect = planned(Child(), "a\u200bb\n" + "x" * PREVIEW_BYTES)
    assert effect.diff == f"Bob\n{BOB.agent_id}\n\na⟦U+200B⟧b\n{'x' * PREVIEW_BYTES}\n"
    assert effect.truncated and effect.interruptible


@pytest.mark.parametrize("change", [OtherAgent(BOB.agent_id, "Rob", 1), OtherAgent(BOB.agent_id, "Bob", 2), OtherAgent(new_id(), "Bob", 1)])
async def test_an_agent_that_is_another_one_by_now_is_not_asked(change: OtherAgent) -> None:
    child = Child(ended(answer="x"))
    effect = planned(child)
    child.agent = change
    with pytest.raises(EffectStale):
        effect.check()
    with pytest.raises(EffectStale):
        await effect.act()
    assert child.asked == []


async def test_what_is_refused_asks_nobody() -> None:
    child = Child()
    child.room = False
    assert plan(child) == CapabilityResult("refused", "run_limit", "nobody was asked: no slot", {})
    assert plan(Child(), agent_id="x") == CapabilityResult("refused", "no_such_agent", "nobody was asked: no active Agent has this id", {})
    assert await planned(Child()).act() == CapabilityResult("refused", "storage_full", "nobody was asked: The disk is full.", {})


@pytest.mark.parametrize("message", ["", " \n\t", "a\x00b", "a\rb", "\x1b[31m"])
def test_a_message_without_words_or_with_controls_is_refused(message: str) -> None:
    refusal = plan(Child(), message)
    assert isinstance(refusal, CapabilityResult) and (refusal.outcome, refusal.code) == ("refused", "message")


@pytest.mark.parametrize(("end", "code", "words"), [
    (ended("failed", code="model_busy", sentence="All streams are in use."), "child_failed", 'The Agent "Bob" gave no answer (model_busy). All streams are in use. It'),
    (ended("failed", code="wall_clock", sentence="It was stopped after 45 seconds."), "child_failed", "gave no answer (wall_clock). It was stopped"),
    (ended("cancelled"), "child_cancelled", 'The Agent "Bob" was stopped before it answered. It'),
    (ended("interrupted"), "child_interrupted", "was interrupted before it answered. It"),
])
def test_no_answer_is_said_as_it_was(end: ChildEnd, code: str, words: str) -> None:
    result = result_of("call_1", BOB, end)
    assert (result.outcome, result.code) == ("failed", code)
    assert words in result.text and "answered:" not in result.text


@pytest.mark.parametrize("more", [0, 1])
def test_an_answer_fits_or_is_cut_with_a_receipt(more: int) -> None:
    heading = len(b'The Agent "Bob" answered:\n\n')
    result = result_of("call_1", BOB, ended(answer="x" * (DELEGATE_ANSWER_BYTES - heading + more)))
    assert len(result.text.encode()) == DELEGATE_ANSWER_BYTES
    assert result.receipt["truncated"] is bool(more)
    assert ("[shortened: call call_1, " in result.text) is bool(more)


@pytest.mark.parametrize("more", [0, 1])
def test_a_model_is_told_of_the_first_agents_by_id_and_name(more: int) -> None:
    others = [OtherAgent(f"id-{number}", "n\u202e" + "a" * OTHER_AGENT_NAME_CHARS, 1) for number in range(OTHER_AGENTS_SHOWN + more)]
    lines = other_agent_lines(others)
    assert lines[0] == f"Agent id-0: n⟦U+202E⟧{'a' * (OTHER_AGENT_NAME_CHARS - 10)}…"
    assert lines[OTHER_AGENTS_SHOWN:] == (("(1 more Agents)",) if more else ())


def test_only_the_providers_own_call_is_a_delegation() -> None:
    spec = CATALOG.get(DELEGATE)
    assert spec is not None and spec.optional and spec.policy == "ask" and len(spec.description.split()) <= 25
    arguments = {"agent_id": BOB.agent_id, "message": "help"}
    real = propose(RawCall(name="agent_delegate", arguments=arguments), (spec,))
    assert (real.tool_id, real.fault, real.written_as_text) == (DELEGATE, None, False)
    for name in ("agent_delegate", "agent/delegate"):
        for shape in (f'{{"name": "{name}", "arguments": {{"agent_id": "x", "message": "y"}}}}',
                      f'{{"type": "function", "function": {{"tool": "{name}", "parameters": {{"agent_id": "x", "message": "y"}}}}}}'):
            written = written_call(shape)
            other = written_call('{"name": "file_read_text", "arguments": {"path": "a"}}')
            assert written is not None and other is not None
            assert propose_written((written,), (spec,), (), correction_available=True) == ()
            assert propose_written((other, written), (*CATALOG.specs,), (), correction_available=True) == ()
