"""The parts of a plan before it is sealed: trusted sections, tool schemas, sizes of past Turns."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent_builder.context.compaction import Room, TurnSize
from agent_builder.context.costs import Cost, Rendered, message_cost, priced, priced_schema, remembered, summed
from agent_builder.context.inputs import PlanInputs
from agent_builder.context.instructions import AGENT, AGENT_TOOLS, AROUND_HEAD, PLATFORM, environment
from agent_builder.context.plan import RenderedTurn, Role, Section, Trust
from agent_builder.context.render import system_message, turn_messages
from agent_builder.protocol.digest import digest_bytes, digest_of
from agent_builder.protocol.errors import InstructionsRefused
from agent_builder.protocol.limits import AROUND_SHARE, INSTRUCTIONS_SHARE, NOTES_SHARE
from agent_builder.protocol.messages import CompletedTurnContext
from agent_builder.protocol.request import TokenCounter

WORKSPACE_HEAD = "Workspace instructions (agent-builder.md):"
MORE_AROUND = "(more than shown)\n"


@dataclass(frozen=True, slots=True)
class FixedParts:
    """What every request of a Conversation begins with."""

    tools: tuple[Rendered, ...]
    head: Rendered
    sections: tuple[Section, ...]

    @property
    def rendered(self) -> tuple[Rendered, ...]:
        return (*self.tools, self.head)


def fixed_parts(inputs: PlanInputs, counter: TokenCounter) -> FixedParts:
    """Raises InstructionsRefused when the workspace instructions take more than their share of the input budget."""
    refuse_long_instructions(inputs.instructions, inputs.model.input_budget, counter)
    sections = tuple(_head_sections(inputs, counter))
    return FixedParts(
        tools=tuple(priced_schema(schema, counter) for schema in inputs.toolset.schemas),
        head=priced(system_message([section.text for section in sections]), counter),
        sections=sections,
    )


def within_share(text: str, room: int, more: str, counter: TokenCounter) -> str:
    """Its first whole lines within so many tokens, and the line `more` when there are others."""
    if count_text(text, counter) <= room:
        return text
    kept = []
    for line in text.splitlines(keepends=True):
        room -= counter.count(line)
        if room < 0:
            break
        kept.append(line)
    return "".join(kept) + more


def refuse_long_instructions(text: str | None, input_budget: int, counter: TokenCounter) -> None:
    share = input_budget // INSTRUCTIONS_SHARE
    tokens = count_text(text, counter) if text else 0
    if tokens > share:
        raise InstructionsRefused(
            f"workspace/agent-builder.md takes {tokens} tokens, but at most {share} (a quarter of the model's input budget) are "
            "allowed; shorten the file.", reason="too_many_tokens", tokens=tokens, allowed=share,
        )


def _head_sections(inputs: PlanInputs, counter: TokenCounter) -> Iterator[Section]:
    yield section("platform", "system", "trusted", "platform", PLATFORM, counter)
    agent = f"{AGENT} {AGENT_TOOLS}" if inputs.toolset.specs else AGENT
    yield section("agent", "system", "trusted", "agent", agent, counter)
    if inputs.instructions and inputs.instructions.strip():
        text = f"{WORKSPACE_HEAD}\n{inputs.instructions.strip()}"
        yield section("workspace", "system", "trusted", "workspace/agent-builder.md", text, counter)
    around = _around(inputs, counter)
    if around:
        yield section("around", "system", "untrusted", "what the Agent has", f"{AROUND_HEAD}\n{around}", counter)
    yield section("environment", "system", "trusted", "environment", environment(inputs.today), counter)


def _around(inputs: PlanInputs, counter: TokenCounter) -> str:
    if not inputs.around or not inputs.toolset.specs:
        return ""
    return within_share("\n".join(inputs.around) + "\n", inputs.model.input_budget // AROUND_SHARE, MORE_AROUND, counter).rstrip()


def section(name: str, role: Role, trust: Trust, provenance: str, text: str, counter: TokenCounter) -> Section:
    data = text.encode()
    return Section(name, role, trust, provenance, len(data), count_text(text, counter), digest_bytes(data), text)


def turn_section(turn: RenderedTurn) -> Section:
    """A whole past Turn."""
    text = "\n".join(str(part.message["content"]) for part in turn.messages)
    tokens = sum(part.cost.text for part in turn.messages)
    digest = digest_of([part.digest for part in turn.messages])
    return Section("turn", "conversation", "untrusted", f"turn {turn.bundle.turn_id}", len(text.encode()), tokens, digest, text)


def count_text(text: str, counter: TokenCounter) -> int:
    return remembered(counter, f"text:{digest_bytes(text.encode())}", lambda: counter.count(text))


def rendered_turn(bundle: CompletedTurnContext, counter: TokenCounter) -> RenderedTurn:
    return RenderedTurn(bundle, tuple(priced(message, counter) for message in turn_messages(bundle)))


def turn_sizes(history: Sequence[CompletedTurnContext], counter: TokenCounter, inflation: float) -> list[TurnSize]:
    """In tokens of the upper bound, times `inflation`."""
    sizes = []
    for bundle in history:
        message, whole = remembered(counter, f"turn:{bundle_digest(bundle)}", lambda bundle=bundle: _turn_costs(bundle, counter))  # type: ignore[misc]
        sizes.append(TurnSize(weight(message, counter, inflation), weight(whole, counter, inflation)))
    return sizes


def _turn_costs(bundle: CompletedTurnContext, counter: TokenCounter) -> tuple[Cost, Cost]:
    costs = [message_cost(message, counter) for message in turn_messages(bundle)]
    return costs[0], summed(costs)


def weight(cost: Cost, counter: TokenCounter, inflation: float, *, more: int = 0) -> int:
    """Of this cost, and `more` tokens beside it."""
    return math.ceil((cost.upper(counter) + more) * inflation)


def bundle_digest(bundle: CompletedTurnContext) -> str:
    """Names the content of a Turn, whichever Conversation it stands in."""
    parts = [bundle.user_text, bundle.preface, bundle.answer, *(exchange.model_dump_json() for exchange in bundle.exchanges)]
    data = [part.encode() for part in parts]
    return hashlib.sha256(b"\0".join([",".join(str(len(one)) for one in data).encode(), *data])).hexdigest()


def source_digest(bundles: Sequence[CompletedTurnContext]) -> str:
    """Names a run of Turns: what a summary was made from."""
    return digest_of([bundle_digest(bundle) for bundle in bundles])


def history_room(inputs: PlanInputs, fixed: FixedParts, headroom: int, counter: TokenCounter) -> Room:
    inflation = inputs.calibration.inflation()
    budget = inputs.model.input_budget
    return Room(
        fixed=counter.overhead.request + sum(weight(part.cost, counter, inflation) for part in fixed.rendered),
        note=note_room(budget), first=budget - headroom, later=budget, target=budget // 2,
    )


def note_room(input_budget: int) -> int:
    """Tokens that notes on earlier Turns may take."""
    return input_budget // NOTES_SHARE
