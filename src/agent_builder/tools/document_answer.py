"""What a parser of documents answered, checked, and as the model is told. The parser has read hostile bytes: of its answer nothing is
believed but text, and numbers within their bounds.
"""

import json
from dataclasses import dataclass
from typing import Literal

from agent_builder.capsule.command_runner import CommandEnd
from agent_builder.capsule.safe_open import FileVersion
from agent_builder.protocol.digest import digest_bytes
from agent_builder.protocol.limits import (
    DOCUMENT_CPU_S,
    DOCUMENT_MEMORY_BYTES,
    DOCUMENT_OFFSET_MAX,
    DOCUMENT_TEXT_BYTES,
)
from agent_builder.tools.calls import CapabilityResult, ok, refused
from agent_builder.tools.cuts import counted, shown_path
from agent_builder.tools.document_format import NAMES, Kind
from agent_builder.tools.file_read import version_receipt
from agent_builder.tools.visible_text import visible

Code = Literal["damaged", "encrypted", "library", "limit", "no_text", "not_text", "parser", "past_end"]
"""Why a document that could be opened gives no text."""

_ALL, _AHEAD = "all", "ahead"
_DETAIL_CHARS = 40
_ODD_SHARE = 3  # a third of the characters; the accents of any language written in Latin letters stay far below
_ODD_LEAST = 16  # characters: in a few words anything may be
_MEBIBYTE = 1 << 20

_BOUNDS = {
    "time": f"it needs more than the {DOCUMENT_CPU_S} s that one call may take",
    "memory": f"it needs more than the {DOCUMENT_MEMORY_BYTES // _MEBIBYTE} MiB of memory that one call may take",
    "limit": "it is nested or repeated beyond what can be read",
}
_FAULTS: dict[Code, str] = {
    "encrypted": "is encrypted and opens with a password only, so its text cannot be read; only its owner can save a copy without one",
    "damaged": "is damaged or not really a {kind}: no text can be taken from it",
    "not_text": "is not UTF-8 text; the operator can save it as UTF-8",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """The document as it was opened, and which characters were asked for."""

    version: FileVersion
    kind: Kind
    first: int
    most: int

    @property
    def shown(self) -> str:
        return shown_path(self.version.path.text)


@dataclass(frozen=True, slots=True)
class _Answer:
    """See worker/document_stub.extract; `text` is cut to what one result holds."""

    text: str
    chars: int
    end: str
    detail: str
    parts: int | None
    parts_read: int
    parts_empty: int
    parts_unreadable: int
    visible: int
    odd: int
    charset: str
    pictures: bool


def result_of(asked: Asked, end: CommandEnd) -> CapabilityResult:
    answer = _answer(asked, end)
    if answer is None:
        return _no_answer(asked, end)
    receipt = _receipt(asked, answer)
    fault = _fault(asked, answer)
    if fault is not None:
        code, words, outcome = fault
        return CapabilityResult("failed" if outcome else "refused", code, f"{asked.shown} {words}", receipt)
    if not answer.text:
        return refused("past_end", f"{asked.shown} has {_amount(answer)}; call again with a smaller offset_chars", **receipt)
    return ok(f"{_heading(asked, answer)}\n{answer.text}", **receipt)


# why there is no text --------------------------------------------------------------------------------------------


def _no_answer(asked: Asked, end: CommandEnd) -> CapabilityResult:
    """The parser was killed, or wrote what is no answer."""
    receipt: dict[str, object] = {**version_receipt(asked.version), "format": asked.kind, "truncated": False}
    receipt |= {"exit_code": end.status} if end.status >= 0 else {"signal": -end.status}
    if end.stopped is None and end.status >= 0:
        return CapabilityResult("failed", "parser", f"{asked.shown} cannot be read: its parser ended without an answer", receipt)
    words = f"cannot be read: it needs more than the {DOCUMENT_CPU_S} s or {DOCUMENT_MEMORY_BYTES // _MEBIBYTE} MiB that one call may take"
    return CapabilityResult("failed", "limit", f"{asked.shown} {words}", receipt)


def _fault(asked: Asked, answer: _Answer) -> tuple[Code, str, bool] | None:
    """Code, words, and whether it was the reading that failed rather than the document. None when there is text to show."""
    if answer.end == "library":
        words = "was not read: the environment for documents cannot be loaded; the operator can remove it and install it again"
        return "library", words, True
    if answer.text and answer.visible:
        return None
    if answer.end in _BOUNDS:
        return "limit", f"cannot be read{_behind(answer)}: {_BOUNDS[answer.end]}", True
    if answer.end == "charset":
        return "not_text", f"is {_undecodable(answer)}; the operator can save it as UTF-8", False
    if answer.visible:
        return None
    for code, words in _FAULTS.items():
        if answer.end == code:
            return code, words.format(kind=NAMES[asked.kind]), False
    return "no_text", _without_text(answer), False


def _undecodable(answer: _Answer) -> str:
    if answer.detail == "no charset":
        return "not UTF-8 and declares no charset"
    return f"encoded as {answer.detail or 'something unknown'}, which cannot be decoded here"


def _without_text(answer: _Answer) -> str:
    if answer.parts is not None:
        return (
            f"has {counted(answer.parts, 'page')} and no text on any of them: they are pictures, probably scanned, and there is no text "
            "recognition here. Say so instead of guessing what stands in it"
        )
    return "has no text in it" + (" but pictures, which cannot be read here" if answer.pictures else "")


def _behind(answer: _Answer) -> str:
    """Where the wanted text lies behind what could be read."""
    return f" from there on (its first {counted(answer.chars, 'character')} can)" if answer.visible else ""


# the text --------------------------------------------------------------------------------------------------------


def _heading(asked: Asked, answer: _Answer) -> str:
    last = asked.first + len(answer.text)
    parts = [f"{asked.shown}: {NAMES[asked.kind]}"]
    if answer.parts is not None:
        parts.append(counted(answer.parts, "page"))
    whole = asked.first == 0 and last == answer.chars and answer.end == _ALL
    parts.append(_amount(answer) if whole else f"characters {asked.first}-{last - 1} of {_amount(answer)}")
    head = ", ".join(parts)
    if last < answer.chars or answer.end == _AHEAD:
        head += f"; for more call document_extract_text with offset_chars {last}"
    return "\n".join((head, *_warnings(answer)))


def _amount(answer: _Answer) -> str:
    return counted(answer.chars, "character") if answer.end == _ALL else f"more than {counted(answer.chars, 'character')}"


def _warnings(answer: _Answer) -> list[str]:
    """What must not be taken for a whole or true text."""
    warnings = []
    if answer.end not in (_ALL, _AHEAD):
        far = "the beginning" if answer.parts is None else f"the first {counted(answer.parts_read, 'page')}"
        warnings.append(f"only {far} could be read: {_BOUNDS.get(answer.end, 'the rest is damaged')}")
    if answer.parts_empty:
        warnings.append(f"{counted(answer.parts_empty, 'page')} of those read without text, perhaps pictures, which cannot be read here")
    if answer.parts_unreadable:
        warnings.append(f"{counted(answer.parts_unreadable, 'page')} damaged and left out")
    if answer.visible >= _ODD_LEAST and answer.odd * _ODD_SHARE > answer.visible:
        warnings.append("much of it looks garbled: the document does not say how its characters are encoded; do not rely on it")
    return [f"({warning})" for warning in warnings]


def _receipt(asked: Asked, answer: _Answer) -> dict[str, object]:
    receipt: dict[str, object] = {
        **version_receipt(asked.version), "format": asked.kind, "first_char": asked.first, "shown_chars": len(answer.text),
        "text_digest": digest_bytes(answer.text.encode()), "truncated": asked.first > 0 or answer.end != _ALL or asked.first + len(answer.text) < answer.chars,
        "total_chars": answer.chars, "complete": answer.end == _ALL,
    }
    if answer.charset:
        receipt["charset"] = answer.charset
    return receipt if answer.parts is None else {**receipt, "pages": answer.parts, "pages_read": answer.parts_read}


# the parser's words ----------------------------------------------------------------------------------------------


def _answer(asked: Asked, end: CommandEnd) -> _Answer | None:
    if end.stopped is not None or end.status != 0:
        return None
    try:
        told = json.loads(end.stdout)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    chars, text = _number(told, "chars"), _word(told, "text", asked.most)
    text = text[: max(0, chars - asked.first)]
    return _Answer(
        text=text.encode()[:DOCUMENT_TEXT_BYTES].decode(errors="ignore"), chars=chars, end=_word(told, "end", _DETAIL_CHARS),
        detail=visible(_word(told, "detail", _DETAIL_CHARS)), parts=None if told.get("parts") is None else _number(told, "parts"),
        parts_read=_number(told, "parts_read"), parts_empty=_number(told, "parts_empty"), parts_unreadable=_number(told, "parts_unreadable"),
        visible=_number(told, "visible"), odd=_number(told, "odd"), charset=_word(told, "charset", _DETAIL_CHARS),
        pictures=bool(told.get("pictures")),
    )


def _number(told: dict[str, object], name: str) -> int:
    value = told.get(name)
    return min(max(value, 0), DOCUMENT_OFFSET_MAX) if isinstance(value, int) else 0


def _word(told: dict[str, object], name: str, most: int) -> str:
    """At most so many characters, none of them a half one."""
    value = told.get(name)
    return value[:most].encode(errors="replace").decode() if isinstance(value, str) else ""
