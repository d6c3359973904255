"""file/edit and file/write: from the model's arguments to an Effect, or to a refusal that says what to do next.

Planning is blocking and changes nothing. The Effect binds the path's identity, the whole content's digest, the mode and the
exact diff; acting goes through atomic_replace.py, which verifies all of that again.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent_builder.capsule.atomic_replace import (
    AbsentFile,
    OutcomeUnknown,
    TargetChanged,
    absent_file,
    check_absent,
    check_replaceable,
    create_file,
    replace_file,
)
from agent_builder.capsule.paths import FileRefused, WorkspacePath
from agent_builder.capsule.safe_open import FileVersion, read_file, text_of
from agent_builder.protocol.digest import digest_bytes
from agent_builder.protocol.limits import DIFF_BYTES, FILE_BYTES, READ_BYTES, READ_LINES, READ_RESULT_BYTES, WRITE_BYTES
from agent_builder.tools.calls import CapabilityResult, ok, refused
from agent_builder.tools.cuts import clip, count_lines, counted, line_at, part_around, part_from_line, shown_path
from agent_builder.tools.diff import changed_lines, unified_diff
from agent_builder.tools.edit_text import Occurrence, Replacement, closest_lines, occurrences, replace, with_endings_of
from agent_builder.tools.effects import Effect, EffectStale
from agent_builder.tools.file_read import file_refusal, path_argument, show, version_receipt
from agent_builder.tools.names import directories_here
from agent_builder.tools.reads import Range, ReadRecord

_LINES_NAMED = 10
_AGAIN = "Read the file again before you propose another change."


@dataclass(frozen=True, slots=True)
class _Target:
    """An existing file with its text."""

    version: FileVersion
    data: bytes
    text: str

    @property
    def shown(self) -> str:
        return shown_path(self.version.path.text)


class _Refused(Exception):
    """Planning ends here with this answer."""

    def __init__(self, result: CapabilityResult) -> None:
        self.result = result
        super().__init__(result.text)


def plan_edit(workspace: Path, arguments: dict[str, object], reads: ReadRecord, expired: Callable[[], bool]) -> Effect | CapabilityResult:
    old, new = str(arguments["old"]), str(arguments["new"])
    try:
        target = _existing(workspace, path_argument(arguments["path"]))
        _check_fragments(target, old, new)
        where = _only_occurrence(target, old, reads, expired)
        seen = _byte_range(target.text, where.start, where.end)
        if not reads.covers(target.version.path.text, target.version.digest, seen):
            raise _Refused(_unread(target, reads, seen, "Your old text occurs exactly once: call file_edit again with the same arguments."))
        replacement = replace(target.text, old, new, where)
        return _replace_effect(workspace, target, replacement.text, _EditNote(reads, replacement, seen))
    except FileRefused as refusal:
        return file_refusal(workspace, str(arguments["path"]), refusal, expired)
    except _Refused as refusal:
        return refusal.result


def plan_write(workspace: Path, arguments: dict[str, object], reads: ReadRecord, expired: Callable[[], bool]) -> Effect | CapabilityResult:
    content = str(arguments["content"])
    try:
        path = path_argument(arguments["path"])
        _check_content(path, content)
        try:
            target = _existing(workspace, path)
        except FileRefused as refusal:
            if refusal.reason not in ("missing", "not_directory"):
                raise
            return _create_effect(workspace, _absent(workspace, path, expired), content, reads)
        _require_whole_read(target, reads)
        return _replace_effect(workspace, target, with_endings_of(target.text, content), _EditNote(reads, None, (0, len(target.data))))
    except FileRefused as refusal:
        return file_refusal(workspace, str(arguments["path"]), refusal, expired)
    except _Refused as refusal:
        return refusal.result


# what may be replaced ------------------------------------------------------------------------------------------


def _existing(workspace: Path, path: WorkspacePath) -> _Target:
    version, data = read_file(workspace, path)
    return _Target(version, data, text_of(path, data))


def _absent(workspace: Path, path: WorkspacePath, expired: Callable[[], bool]) -> AbsentFile:
    try:
        return absent_file(workspace, path)
    except FileRefused as refusal:
        if refusal.reason not in ("missing", "not_directory"):
            raise
        where = "/".join(path.text.split("/")[:-1])
        raise _Refused(refused(
            refusal.reason,
            f"nothing was written: there is no directory {shown_path(where)}, and file_write makes none; {directories_here(workspace, where, expired)}",
        )) from refusal


def _check_fragments(target: _Target, old: str, new: str) -> None:
    if not old:
        raise _Refused(refused("empty_old", f"old is empty; to replace all of {target.shown} use file_write"))
    if old == new:
        raise _Refused(refused("no_change", "old and new are equal; nothing would change. Give in new the text as it shall be."))
    if "\0" in new:
        raise _Refused(refused("not_text", "new has a NUL character; files here are text"))


def _check_content(path: WorkspacePath, content: str) -> None:
    if "\0" in content:
        raise _Refused(refused("not_text", f"the content for {shown_path(path.text)} has a NUL character; files here are text"))


def _only_occurrence(target: _Target, old: str, reads: ReadRecord, expired: Callable[[], bool]) -> Occurrence:
    found = occurrences(target.text, old)
    if len(found) == 1:
        return found[0]
    if found:
        numbers = ", ".join(str(one.line) for one in found[:_LINES_NAMED]) + (", …" if len(found) > _LINES_NAMED else "")
        text = (
            f"nothing was changed: old occurs {len(found)} times in {target.shown} (beginning in lines {numbers}); "
            "call file_edit again with an old text that is longer, so that it occurs exactly once"
        )
        raise _Refused(_with_text(target, reads, "old_not_unique", text, _byte_range(target.text, found[0].start, found[0].end)))
    raise _Refused(_not_found(target, old, reads, expired))


def _not_found(target: _Target, old: str, reads: ReadRecord, expired: Callable[[], bool]) -> CapabilityResult:
    closest = closest_lines(target.text, old, expired)
    near = "; the closest lines are:\n" + "\n".join(f"{number}: {line}" for number, line in closest) if closest else ""
    text = f"nothing was changed: old does not occur in {target.shown}; call file_edit again with text copied exactly from the file"
    place = _line_start(target.data, closest[0][0]) if closest else 0
    return _with_text(target, reads, "old_not_found", text, (place, place), near)


def _unread(target: _Target, reads: ReadRecord, wanted: Range, advice: str) -> CapabilityResult:
    """Shows what is missing of `wanted`, from its first unread byte on."""
    gap = reads.first_gap(target.version.path.text, target.version.digest, wanted)
    missing = (wanted[0] if gap is None else gap, wanted[1])
    end = part_around(target.data, missing).end
    here = f"nothing was changed: this part of {target.shown} was not read in this Run. Here it is."
    if end < wanted[1]:
        here = (
            f"nothing was changed: this part of {target.shown} was not read in this Run, and one answer cannot show all of it. Here is its "
            f"beginning; call file_read_text with start_line {line_at(target.data, end)} for more of it, or change less at once."
        )
    return _with_text(target, reads, "not_read", f"{here} {advice}", missing)


def _with_text(target: _Target, reads: ReadRecord, code: str, sentence: str, wanted: Range, near: str = "") -> CapabilityResult:
    """The refusal and, unless the model has it already, the text around `wanted`, which then counts as read; so it is the
    closest lines in `near` that are cut where both do not fit."""
    known = reads.covers(target.version.path.text, target.version.digest, wanted) and wanted[0] < wanted[1]
    part = part_around(target.data, wanted)
    if known or reads.covers(target.version.path.text, target.version.digest, (part.start, part.end)):
        return refused(code, sentence + clip(near, READ_RESULT_BYTES - len(sentence.encode())), **version_receipt(target.version))
    shown = show(target.version, target.data, part, reads)
    room = READ_RESULT_BYTES - len(sentence.encode()) - len(shown.text.encode()) - 1
    text = f"{sentence}{clip(near, room)}\n{shown.text}"
    assert len(text.encode()) <= READ_RESULT_BYTES
    return refused(code, text, **shown.receipt)


def _require_whole_read(target: _Target, reads: ReadRecord) -> None:
    path, size = target.version.path.text, len(target.data)
    gap = reads.first_gap(path, target.version.digest, (0, size))
    if gap is None:
        return
    whole = part_around(target.data, (0, size))
    if whole.end == size and whole.start == 0:
        raise _Refused(_unread(target, reads, (0, size), "file_write would replace all of it: call it again if that is wanted, or file_edit for a part."))
    line = line_at(target.data, gap)
    next_part = part_from_line(target.data, line, READ_LINES)
    if next_part is not None and next_part.end <= gap:
        missing = f"Line {line} is longer than that and cannot be read whole: use file_edit for a part of it."
    else:
        missing = f"Not read yet: from line {line} of {count_lines(target.data)} on. To change a part, use file_edit."
    raise _Refused(refused(
        "not_read",
        f"nothing was changed: file_write replaces all of {target.shown}, so all its {size} bytes must have been read in this Run, and one "
        f"call reads {READ_BYTES} bytes. {missing}",
        **version_receipt(target.version),
    ))


# effects ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _EditNote:
    """What the read record learns when the effect is done: `replacement` None means the whole file."""

    reads: ReadRecord
    replacement: Replacement | None
    replaced: Range

    def done(self, target: _Target, data: bytes) -> None:
        new_bytes = len(data) if self.replacement is None else len(self.replacement.new.encode())
        self.reads.edited(target.version.path.text, target.version.digest, digest_bytes(data), self.replaced, new_bytes)


def _replace_effect(workspace: Path, target: _Target, text: str, note: _EditNote) -> Effect:
    data, path = text.encode(), target.version.path.text
    if data == target.data:
        raise _Refused(refused("no_change", f"{target.shown} has exactly this content already; nothing would change. Answer in plain words."))
    if note.replacement is None:
        _check_written(target.shown, data)
    if len(data) > FILE_BYTES:
        raise _Refused(refused("too_large", f"{target.shown} would have {len(data)} bytes; at most {FILE_BYTES} are allowed"))
    diff = _bounded_diff(path, target.text, text)
    _stale_is_refused(lambda: check_replaceable(workspace, target.version))

    def check() -> None:
        _as_stale(lambda: check_replaceable(workspace, target.version))

    async def act() -> CapabilityResult:
        result = await asyncio.to_thread(_commit, lambda: replace_file(workspace, target.version, data), target.shown)
        if result is not None:
            return result
        note.done(target, data)
        added, removed = changed_lines(target.text, text)
        return _done(f"{target.shown} was changed: {counted(removed, 'line')} removed, {added} added", path, data, target.version.path_digest)

    return Effect(diff, check, act, _AGAIN)


def _create_effect(workspace: Path, absent: AbsentFile, content: str, reads: ReadRecord) -> Effect:
    data, path = content.encode(), absent.path.text
    _check_written(shown_path(path), data)
    diff = _bounded_diff(path, None, content)

    def check() -> None:
        _as_stale(lambda: check_absent(workspace, absent))

    async def act() -> CapabilityResult:
        result = await asyncio.to_thread(_commit, lambda: create_file(workspace, absent, data), shown_path(path))
        if result is not None:
            return result
        reads.add(path, digest_bytes(data), (0, len(data)))
        return _done(f"{shown_path(path)} was created", path, data, absent.path_digest)

    return Effect(diff, check, act, _AGAIN)


def _commit(change: Callable[[], None], shown: str) -> CapabilityResult | None:
    """Blocking. None when the change is done and proven. Raises EffectStale."""
    try:
        change()
    except TargetChanged as changed:
        raise EffectStale(changed.sentence) from changed
    except FileRefused as refusal:
        raise EffectStale(refusal.sentence) from refusal
    except OutcomeUnknown:
        return CapabilityResult(
            "outcome_unknown", "outcome_unknown",
            f"it cannot be proven whether {shown} was changed; do not try again, and tell the user to look at the file", {},
        )
    except OSError as error:
        return CapabilityResult("failed", "io_error", f"nothing was changed: {shown} cannot be written ({error.strerror})", {})
    return None


def _done(sentence: str, path: str, data: bytes, path_digest: str) -> CapabilityResult:
    text = f"done: {sentence}; it has {counted(count_lines(data), 'line')}, {counted(len(data), 'byte')} now. Tell the user so in plain words."
    return ok(text, path=path, content_digest=digest_bytes(data), path_digest=path_digest, file_bytes=len(data))


def _check_written(shown: str, data: bytes) -> None:
    if len(data) > WRITE_BYTES:
        raise _Refused(refused("too_large", f"the new content of {shown} has {len(data)} bytes; file_write takes at most {WRITE_BYTES}"))


def _bounded_diff(path: str, old: str | None, new: str) -> str:
    diff = unified_diff(path, old, new)
    if len(diff.encode()) > DIFF_BYTES:
        raise _Refused(refused(
            "too_large", f"the change of {shown_path(path)} is too large to be shown to the operator (over {DIFF_BYTES} bytes); change less at once"
        ))
    return diff


def _as_stale(check: Callable[[], None]) -> None:
    try:
        check()
    except TargetChanged as changed:
        raise EffectStale(changed.sentence) from changed
    except FileRefused as refusal:
        raise EffectStale(refusal.sentence) from refusal


def _stale_is_refused(check: Callable[[], None]) -> None:
    """While planning, a target that changes under our hands is refused like one that changes while it is read."""
    try:
        check()
    except TargetChanged as changed:
        raise FileRefused("changing", f"{changed.sentence}; try again") from changed


def _byte_range(text: str, start: int, end: int) -> Range:
    first = len(text[:start].encode())
    return first, first + len(text[start:end].encode())


def _line_start(data: bytes, line: int) -> int:
    place = 0
    for _ in range(line - 1):
        place = data.find(b"\n", place) + 1
    return place
