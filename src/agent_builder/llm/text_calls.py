"""Tool calls that a model has written as text. Pure.

The answer as a whole must be one object, or several with only blanks between: bare, in one code fence without a language
or marked json, or in <tool_call> tags. The object has exactly a name (`name`, `function` or `tool`) and an arguments
object (`arguments` or `parameters`), or is {"type": "function", "function": {that}}. Everything else is plain text, and so is
an answer that writes one call a third time: a model that repeats itself, whose stream the repetition guard must see.
"""

from dataclasses import dataclass

from agent_builder.llm.json_prefix import ARGUMENT_KEYS, NAME_KEYS, JsonPrefix
from agent_builder.llm.strict_json import NotJson, parse_json_once
from agent_builder.protocol.limits import HELD_TEXT_BYTES, WRITTEN_COPIES

_WHITE = " \t\n\r"
_FENCE, _TAG, _TAG_END = "```", "<tool_call>", "</tool_call>"
_LANGUAGE = "json"


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """`source`: the object as the model wrote it."""

    name: str
    arguments: dict[str, object]
    source: str


def written_call(source: str) -> WrittenCall | None:
    """The call that one JSON object is, by the closed set of shapes."""
    try:
        value = parse_json_once(source)
    except NotJson:
        return None
    if isinstance(value, dict) and value.keys() == {"type", "function"} and value["type"] == "function":
        value = value["function"]
    if not isinstance(value, dict) or len(value) != 2:
        return None
    names = [value[key] for key in NAME_KEYS if key in value]
    arguments = [value[key] for key in ARGUMENT_KEYS if key in value]
    if len(names) != 1 or len(arguments) != 1 or not isinstance(names[0], str) or not isinstance(arguments[0], dict):
        return None
    return WrittenCall(names[0], arguments[0], source.strip())


class HeldText:
    """Holds text back while the whole of it may still become calls, at most 16 KiB, so that no half call is shown."""

    def __init__(self) -> None:
        self._item = _Item()
        self._held: list[str] = []
        self._held_bytes = 0
        self._calls: list[WrittenCall] = []
        self._passing = False

    def feed(self, text: str) -> str:
        """What may be shown now: everything so far from the first character on that rules calls out."""
        if self._passing:
            return text
        self._held.append(text)
        self._held_bytes += len(text.encode(errors="surrogatepass"))
        self._passing = self._held_bytes > HELD_TEXT_BYTES or not self._may_become_calls(text)
        return self._release() if self._passing else ""

    def finish(self) -> tuple[str, tuple[WrittenCall, ...]]:
        """What is still held, and the calls that it is; no calls means that it is plain text."""
        whole = self._item.at_start and not self._passing
        return self._release(), tuple(self._calls) if whole else ()

    def _may_become_calls(self, text: str) -> bool:
        at = 0
        while at < len(text):
            if (plain := self._item.skip(text, at)) > at:
                at = plain
                continue
            if not self._item.feed(text[at]):
                return False
            at += 1
            if self._item.source is not None:
                call = written_call(self._item.source)
                if call is None or self._calls.count(call) >= WRITTEN_COPIES:
                    return False
                self._item.source = None
                self._calls.append(call)
            if self._item.ended:
                self._item = _Item()
        return True

    def _release(self) -> str:
        held = "".join(self._held)
        self._held = []
        return held


class _Item:
    """One object with what may stand around it. `source` is set when the object is complete, `ended` after its closing."""

    def __init__(self) -> None:
        self.source: str | None = None
        self.ended = False
        self._opening = self._closing = ""
        self._object: JsonPrefix | None = None
        self._text: list[str] = []

    @property
    def at_start(self) -> bool:
        return not self._opening and self._object is None

    def skip(self, text: str, start: int) -> int:
        """Takes in at once what no character of can rule a call out; gives the place behind it."""
        stop = start if self._object is None or self._object.closed else self._object.skip(text, start)
        self._text.append(text[start:stop])
        return stop

    def feed(self, char: str) -> bool:
        if self._object is None:
            return self._open(char)
        if not self._object.closed:
            return self._inside(char)
        return self._close(char)

    def _open(self, char: str) -> bool:
        if char == "{" and self._opening.strip() in ("", _FENCE, _FENCE + _LANGUAGE, _TAG):
            self._object = JsonPrefix()
            return self._inside(char)
        if self.at_start and char in _WHITE:
            return True
        self._opening += char
        opening = self._opening.rstrip(_WHITE)
        if opening != self._opening:  # blanks end a fence's language or a whole tag
            return opening in (_FENCE, _FENCE + _LANGUAGE, _TAG)
        return ((_FENCE + _LANGUAGE).startswith(opening.lower()) and self._lower()) or _TAG.startswith(opening)

    def _lower(self) -> bool:
        self._opening = self._opening.lower()
        return True

    def _inside(self, char: str) -> bool:
        assert self._object is not None
        self._text.append(char)
        if not self._object.feed(char):
            return False
        if self._object.closed:
            self.source = "".join(self._text)
            self.ended = not self._opening
        return True

    def _close(self, char: str) -> bool:
        end = _TAG_END if self._opening.startswith(_TAG) else _FENCE
        if not self._closing and char in _WHITE:
            return True
        self._closing += char
        self.ended = self._closing == end
        return end.startswith(self._closing)
