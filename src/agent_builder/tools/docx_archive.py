"""Looks at a DOCX as an archive before anything parses it: names, numbers and sizes of its entries, from the central directory alone.

Nothing is expanded here and no XML is read. A directory that lies about sizes gains nothing by it: the parser that expands the
entries has bounds of its own. Source of the layout: PKWARE's APPNOTE.TXT, sections 4.3.12 and 4.3.16.
"""

import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from agent_builder.capsule.paths import FileRefused
from agent_builder.protocol.limits import (
    DOCX_ENTRIES,
    DOCX_EXPANDED_BYTES,
    DOCX_NAME_BYTES,
    DOCX_RATIO,
    DOCX_RATIO_FREE_BYTES,
    DOCX_XML_BYTES,
)
from agent_builder.tools.cuts import shown_path

_END = struct.Struct("<4s4H2LH")
_END_MARK = b"PK\x05\x06"
_ENTRY = struct.Struct("<4s6H3L5H2L")
_ENTRY_MARK = b"PK\x01\x02"
_COMMENT_MOST = 0xFFFF
_STORED, _DEFLATED = 0, 8
_ENCRYPTED = 1
_UTF8_NAME = 1 << 11
_UNIX = 3
_MAIN = "word/document.xml"
_XML_NAMES = (".xml", ".rels")


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    flags: int
    method: int
    packed: int
    expanded: int
    mode: int


def check_docx(path: str, data: bytes) -> None:
    """Raises FileRefused: `damaged` where it is no whole archive, `format` where no document is in it, `encrypted`, `too_large` over a
    bound, `archive` for an entry that no DOCX has."""
    entries = list(_entries(path, data))
    for entry in entries:
        _check_entry(path, entry)
    names = [entry.name.lower() for entry in entries]
    if len(set(names)) != len(names):
        raise _refused(path, "archive", "has two entries of the same name")
    if _MAIN not in names:
        raise _refused(path, "format", f"is a zip archive, but no DOCX: it has no {_MAIN}")
    _check_sizes(path, entries, len(data))


def _check_entry(path: str, entry: _Entry) -> None:
    shown = shown_path(entry.name)
    if entry.flags & _ENCRYPTED:
        raise _refused(path, "encrypted", "is encrypted with a password, so its text cannot be read")
    if entry.method not in (_STORED, _DEFLATED):
        raise _refused(path, "archive", f"has an entry packed in a way that DOCX does not use ({entry.method})")
    parts = entry.name.removesuffix("/").split("/")
    if not entry.name.isprintable() or "\\" in entry.name or ":" in entry.name or any(part in ("", ".", "..") for part in parts):
        raise _refused(path, "archive", f"has an entry with a name that leads elsewhere: {shown}")
    if stat.S_IFMT(entry.mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise _refused(path, "archive", f"has an entry that is a link or device: {shown}")
    if entry.name.lower().endswith(_XML_NAMES) and entry.expanded > DOCX_XML_BYTES:
        raise _refused(path, "too_large", f"has {shown} with {entry.expanded} bytes of XML; at most {DOCX_XML_BYTES} can be read")


def _check_sizes(path: str, entries: list[_Entry], size: int) -> None:
    packed, expanded = sum(entry.packed for entry in entries), sum(entry.expanded for entry in entries)
    if packed > size:
        raise _refused(path, "archive", "has entries that lie in each other")
    if expanded > DOCX_EXPANDED_BYTES:
        raise _refused(path, "too_large", f"expands to {expanded} bytes; at most {DOCX_EXPANDED_BYTES} can be read")
    if expanded > max(DOCX_RATIO_FREE_BYTES, DOCX_RATIO * packed):
        raise _refused(path, "too_large", f"expands to {expanded // max(1, packed)} times its size, more than {DOCX_RATIO}; it may be made to exhaust its reader")


def _entries(path: str, data: bytes) -> Iterator[_Entry]:
    count, size, place = _directory(path, data)
    if count > DOCX_ENTRIES:
        raise _refused(path, "too_large", f"has {count} entries; at most {DOCX_ENTRIES} can be read")
    end = place + size
    for _ in range(count):
        entry, place = _entry_at(path, data, place)
        yield entry
    if place != end:
        raise _refused(path, "damaged", "is a damaged archive: its list of entries has another length")


def _directory(path: str, data: bytes) -> tuple[int, int, int]:
    """Number of entries, length and place of the central directory."""
    place = data.rfind(_END_MARK, max(0, len(data) - _END.size - _COMMENT_MOST))
    if place < 0 or len(data) - place < _END.size:
        raise _refused(path, "damaged", "is a damaged archive: its end is missing")
    _, disk, first_disk, here, count, size, start, comment = _END.unpack_from(data, place)
    if disk or first_disk or here != count or start + size != place or place + _END.size + comment != len(data):
        raise _refused(path, "damaged", "is a damaged archive: its end does not fit the rest")
    return count, size, start


def _entry_at(path: str, data: bytes, place: int) -> tuple[_Entry, int]:
    if place + _ENTRY.size > len(data) or not data.startswith(_ENTRY_MARK, place):
        raise _refused(path, "damaged", "is a damaged archive: an entry is missing")
    _, made, _, flags, method, _, _, _, packed, expanded, name, extra, comment, _, _, attributes, _ = _ENTRY.unpack_from(data, place)
    start = place + _ENTRY.size
    if name > DOCX_NAME_BYTES:
        raise _refused(path, "archive", "has an entry with a name that is too long")
    text = data[start : start + name].decode("utf-8" if flags & _UTF8_NAME else "cp437", "replace")
    mode = attributes >> 16 if made >> 8 == _UNIX else 0
    return _Entry(text, flags, method, packed, expanded, mode), start + name + extra + comment


def _refused(path: str, reason: str, words: str) -> FileRefused:
    return FileRefused(reason, f"{shown_path(path)} {words}")
