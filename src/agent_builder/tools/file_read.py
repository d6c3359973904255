"""file/read_text and file/stat. Blocking: the broker runs them in a thread."""

import os
from collections.abc import Callable
from pathlib import Path

from agent_builder.capsule.paths import FileRefused, WorkspacePath, parse_path
from agent_builder.capsule.safe_open import FileVersion, Place, open_directory, read_file, text_of
from agent_builder.protocol.digest import digest_of
from agent_builder.protocol.limits import READ_LINES, READ_RESULT_BYTES, SEARCH_ENTRIES
from agent_builder.tools.calls import CapabilityResult, ok, refused
from agent_builder.tools.cuts import Part, count_lines, counted, part_from_line, shown_path
from agent_builder.tools.names import files_here
from agent_builder.tools.reads import ReadRecord

_BOM = b"\xef\xbb\xbf"


def path_argument(value: object) -> WorkspacePath:
    """A path as a model writes it: a leading ./ says nothing and is dropped. Raises FileRefused."""
    return parse_path(str(value).removeprefix("./"))


def read_text(workspace: Path, arguments: dict[str, object], reads: ReadRecord, expired: Callable[[], bool]) -> CapabilityResult:
    """What was shown counts as read."""
    first, most = arguments.get("start_line", 1), arguments.get("max_lines", READ_LINES)
    assert isinstance(first, int)
    assert isinstance(most, int)
    try:
        version, data = read_file(workspace, path_argument(arguments["path"]))
        text_of(version.path, data)
    except FileRefused as refusal:
        return file_refusal(workspace, str(arguments["path"]), refusal, expired)
    part = part_from_line(data, first, most)
    if part is None:
        text = f"{shown_path(version.path.text)} has only {counted(count_lines(data), 'line')}; call again without start_line"
        return refused("past_end", text, **version_receipt(version))
    return show(version, data, part, reads)


def show(version: FileVersion, data: bytes, part: Part, reads: ReadRecord) -> CapabilityResult:
    """One part of a file under a line that says what it is, and the record that it was seen."""
    reads.add(version.path.text, version.digest, (part.start, part.end))
    text = f"{_heading(version, data, part)}\n{data[part.start : part.end].decode()}"
    assert len(text.encode()) <= READ_RESULT_BYTES
    return ok(
        text, **version_receipt(version), lines=count_lines(data), first_line=part.first_line,
        last_line=part.last_line, shown_bytes=part.end - part.start, truncated=part.end - part.start < version.bytes,
    )


def stat(workspace: Path, arguments: dict[str, object], expired: Callable[[], bool]) -> CapabilityResult:
    try:
        version, data = read_file(workspace, path_argument(arguments["path"]))
    except FileRefused as refusal:
        if refusal.reason == "directory":
            return _stat_directory(workspace, path_argument(arguments["path"]))
        return file_refusal(workspace, str(arguments["path"]), refusal, expired)
    shown = shown_path(version.path.text)
    try:
        text_of(version.path, data)
    except FileRefused:
        return ok(f"{shown}: binary file, {version.bytes} bytes, sha256 {version.digest}", **version_receipt(version))
    lines = count_lines(data)
    return ok(
        f"{shown}: text file, {counted(lines, 'line')}, {counted(version.bytes, 'byte')}{_traits(data)}, sha256 {version.digest}",
        **version_receipt(version), lines=lines,
    )


def file_refusal(workspace: Path, path: str, refusal: FileRefused, expired: Callable[[], bool]) -> CapabilityResult:
    """A refusal as the model sees it; a path that names no file comes with those that do."""
    if refusal.reason in ("missing", "not_directory"):
        return refused(refusal.reason, f"there is no file {shown_path(path)}; {files_here(workspace, path, expired)}")
    if refusal.reason in ("path", "directory"):
        return refused(refusal.reason, f"{refusal.sentence}; {files_here(workspace, path, expired)}")
    return refused(refusal.reason, refusal.sentence)


def version_receipt(version: FileVersion) -> dict[str, object]:
    return {"content_digest": version.digest, "path_digest": version.path_digest, "file_bytes": version.bytes}


def directory_receipt(chain: tuple[Place, ...]) -> dict[str, object]:
    """Names every directory from the workspace down to the one that was looked into."""
    return {"path_digest": digest_of(list(chain))}


def _stat_directory(workspace: Path, path: WorkspacePath) -> CapabilityResult:
    try:
        with open_directory(workspace, path.parts) as directory:
            entries = 0
            with os.scandir(directory.descriptor) as found:
                for _ in found:
                    entries += 1
                    if entries > SEARCH_ENTRIES:
                        return ok(f"{shown_path(path.text)}: directory, more than {SEARCH_ENTRIES} entries", **directory_receipt(directory.chain))
    except FileRefused as refusal:
        return refused(refusal.reason, refusal.sentence)
    return ok(f"{shown_path(path.text)}: directory, {entries} {'entry' if entries == 1 else 'entries'}", **directory_receipt(directory.chain))


def _heading(version: FileVersion, data: bytes, part: Part) -> str:
    shown, lines = shown_path(version.path.text), count_lines(data)
    if part.start == 0 and part.end == len(data):
        return f"{shown}: {counted(lines, 'line')}, {version.bytes} bytes{_traits(data)}"
    if not part.whole_lines:
        return f"{shown}: {_cut_lines(part, lines)} {part.end - part.start} bytes from byte {part.start} of {version.bytes}{_traits(data)}"
    more = f"; for more call file_read_text with start_line {part.last_line + 1}" if part.end < len(data) else ""
    return f"{shown}: lines {part.first_line}-{part.last_line} of {lines}, {version.bytes} bytes in all{_traits(data)}{more}"


def _cut_lines(part: Part, lines: int) -> str:
    """What is shown begins or ends within a line."""
    if part.first_line != part.last_line:
        return f"parts of the lines {part.first_line}-{part.last_line} of {lines};"
    behind = f"; for the lines behind it call file_read_text with start_line {part.last_line + 1}" if part.last_line < lines else ""
    return (
        f"line {part.first_line} of {lines} is too long to be shown whole; file_read_text cannot show the rest of it, file_grep shows "
        f"it around a match{behind};"
    )


def _traits(data: bytes) -> str:
    """What the eye does not see: BOM, line endings, a missing last line feed."""
    crlf = data.count(b"\r\n")
    lf = data.count(b"\n") - crlf
    endings = "" if not crlf else ", CRLF line endings" if not lf else ", mixed line endings"
    bom = ", begins with a BOM" if data.startswith(_BOM) else ""
    last = ", no newline at the end" if data and not data.endswith(b"\n") else ""
    return f"{bom}{endings}{last}"
