"""AnswerAssembly: makes one answer out of the frames of one provider stream, under every bound of what is shown. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agent_builder.llm.frames import Frame, RawCall
from agent_builder.llm.proposals import ProposedCall, propose, propose_written
from agent_builder.llm.repetition import REPETITION_MARKER, RepetitionGuard
from agent_builder.llm.text_calls import HeldText
from agent_builder.protocol.errors import ModelEmptyAnswer, ModelProtocol, ModelThinkingExhausted
from agent_builder.protocol.limits import THINKING_BYTES, VISIBLE_TEXT_BYTES
from agent_builder.protocol.toolspec import ToolSpec

MAX_OUTPUT_MARKER = "[回答达到输出上限，已被截断。]"

_THINKING_HELP = "The model spent its whole output on thinking. Set think = false for it in the model catalog, or give it a larger output_cap."

Reason = Literal["stop", "max_output", "repetition_truncated"]


@dataclass(frozen=True, slots=True)
class AssemblyRules:
    """What decides about calls in one answer. `text_calls`: whether a call may be written as text at all."""

    offered: tuple[ToolSpec, ...]
    quotations: tuple[str, ...]
    correction_available: bool
    text_calls: bool


@dataclass(frozen=True, slots=True)
class Assembled:
    """`text` holds what was shown; for calls written as text, what the model wrote instead of them."""

    text: str
    calls: tuple[ProposedCall, ...]
    reason: Reason


class AnswerAssembly:
    """`feed` each frame; `take` gives what has become visible since; `repeated` means: close the stream and `finish`."""

    def __init__(self, rules: AssemblyRules) -> None:
        self.repeated = False
        self._rules = rules
        self._held = HeldText() if rules.text_calls and rules.offered else None
        self._guard: RepetitionGuard | None = RepetitionGuard()
        self._calls: list[RawCall] = []
        self._shown: list[str] = []
        self._shown_bytes = 0
        self._visible = False
        self._cut = False
        self._thought = False
        self._thinking_left = THINKING_BYTES
        self._new_text: list[str] = []
        self._new_thinking: list[str] = []

    def feed(self, frame: Frame) -> None:
        """Raises ModelProtocol for a call in an answer that was cut already."""
        if frame.thinking:
            self._think(frame.thinking)
        if frame.calls:
            self._calls.extend(frame.calls)
            self._guard = None
        if frame.text:
            self._accept(self._held.feed(frame.text) if self._held else frame.text)
        self._refuse_calls_of_a_cut_answer()

    def take(self) -> tuple[str, str]:
        """New thinking and new text, each once."""
        thinking, text = "".join(self._new_thinking), "".join(self._new_text)
        self._new_thinking.clear()
        self._new_text.clear()
        return thinking, text

    def finish(self, done_reason: str) -> Assembled:
        """After the final frame, or when `repeated`. What is still to be shown can be taken afterwards. Raises
        ModelEmptyAnswer or ModelThinkingExhausted."""
        written = self._finish_held()
        if written is not None:
            return written
        self._refuse_calls_of_a_cut_answer()
        calls = tuple(propose(call, self._rules.offered) for call in self._calls)
        if not calls:
            self._require_text()
        if done_reason == "length" and not calls and not self._cut and not self.repeated:
            self._cut_here()
        text = "".join(self._shown)
        if self.repeated:
            return Assembled(text, (), "repetition_truncated")
        return Assembled(text, calls, "max_output" if self._cut else "stop")

    def _finish_held(self) -> Assembled | None:
        """The calls that the held text is; otherwise the text is shown."""
        if self._held is None:
            return None
        text, written = self._held.finish()
        if written and not self._calls:
            rules = self._rules
            calls = propose_written(written, rules.offered, rules.quotations, correction_available=rules.correction_available)
            if calls:
                return Assembled(text, calls, "stop")
        self._accept(text)
        return None

    def _refuse_calls_of_a_cut_answer(self) -> None:
        if self._cut and self._calls:
            raise ModelProtocol("The model's answer was too long and called a tool as well; it was thrown away.")

    def _require_text(self) -> None:
        if self._visible:
            return
        raise ModelThinkingExhausted(_THINKING_HELP) if self._thought else ModelEmptyAnswer()

    def _think(self, thinking: str) -> None:
        self._thought = True
        if self._thinking_left <= 0:
            return
        kept = _prefix(thinking, self._thinking_left)
        self._thinking_left = self._thinking_left - len(kept.encode()) if kept == thinking else 0
        self._new_thinking.append(kept)

    def _accept(self, text: str) -> None:
        if not text or self._cut or self.repeated:
            return
        keep = self._guard.feed(text) if self._guard else None
        if keep is not None:
            text, self.repeated = text[:keep], True
        if self._shown_bytes + len(text.encode()) <= VISIBLE_TEXT_BYTES:
            self._show(text)
        else:
            self._show(_prefix(text, VISIBLE_TEXT_BYTES - self._shown_bytes))
            if not self.repeated:
                self._cut_here()
        if self.repeated:
            self._mark(REPETITION_MARKER)

    def _cut_here(self) -> None:
        self._cut = True
        self._mark(MAX_OUTPUT_MARKER)

    def _show(self, text: str) -> None:
        """The model's own words. Blanks alone are no answer."""
        self._shown_bytes += len(text.encode())
        self._visible = self._visible or bool(text.strip())
        self._mark(text)

    def _mark(self, text: str) -> None:
        self._shown.append(text)
        self._new_text.append(text)


def rules_for(
    offered: Sequence[ToolSpec], quotations: Sequence[str], *, correction_available: bool, text_tool_calls: Literal["strict", "off"]
) -> AssemblyRules:
    return AssemblyRules(tuple(offered), tuple(quotations), correction_available, text_tool_calls == "strict")


def _prefix(text: str, limit: int) -> str:
    """The longest prefix of at most `limit` UTF-8 bytes."""
    data = text.encode()
    return text if len(data) <= limit else data[:limit].decode(errors="ignore")
