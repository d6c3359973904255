"""Which kind of document a file is, by its first bytes and its name. What its content contradicts is refused, never guessed."""

from typing import Literal

from agent_builder.capsule.paths import FileRefused
from agent_builder.protocol.limits import DOCUMENT_HEAD_BYTES
from agent_builder.tools.cuts import shown_path
from agent_builder.tools.docx_archive import check_docx

Kind = Literal["pdf", "docx", "html", "text"]
NAMES: dict[Kind, str] = {"pdf": "PDF", "docx": "DOCX", "html": "HTML", "text": "text"}
SUPPORTED = "PDF, DOCX, HTML, Markdown and UTF-8 text can be read"

_PDF = b"%PDF-"
_ZIP = b"PK\x03\x04"
_OLD_OFFICE = bytes.fromhex("d0cf11e0a1b11ae1")  # the compound file of older Office programs, which also holds an encrypted DOCX
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")
_HTML_NAMES = (".html", ".htm", ".xhtml")
_HTML_STARTS = (b"<!doctype html", b"<html")
_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff")  # text all the same, but not UTF-8: its reader says so
_OTHERS = (
    (b"\x89PNG", "a PNG picture"), (b"\xff\xd8\xff", "a JPEG picture"), (b"GIF8", "a GIF picture"), (b"{\\rtf", "an RTF document"),
    (b"\x1f\x8b", "a gzip archive"), (b"%!PS", "PostScript"), (b"\x7fELF", "a program"), (_ZIP, "a zip archive"),
    (_OLD_OFFICE, "a file of an older Office program"),
)


def kind_of(path: str, data: bytes) -> Kind:
    """Raises FileRefused: `format` with what it is instead, `no_text` for an empty file, and what `check_docx` finds."""
    name, head = path.lower(), data[:DOCUMENT_HEAD_BYTES]
    if not data:
        raise FileRefused("no_text", f"{shown_path(path)} is empty (0 bytes)")
    if head.startswith(_PDF) or (name.endswith(".pdf") and _PDF in head):
        return "pdf"
    if name.endswith(".docx"):
        return _docx(path, data)
    if name.endswith(".pdf"):
        raise FileRefused("format", f"{shown_path(path)} does not begin like a PDF{_instead(head)}")
    if name.endswith(_HTML_NAMES) or head.removeprefix(_BOM).lstrip().lower().startswith(_HTML_STARTS):
        return "html"
    if not head.startswith(_WIDE_BOMS) and (b"\0" in head or _instead(head)):
        raise FileRefused("format", f"{shown_path(path)} is a binary file{_instead(head)}; {SUPPORTED}")
    return "text"


def _docx(path: str, data: bytes) -> Kind:
    if data.startswith(_OLD_OFFICE) and _ENCRYPTED_PACKAGE in data:
        raise FileRefused("encrypted", f"{shown_path(path)} is encrypted with a password, so its text cannot be read; only its owner can save a copy without one")
    if not data.startswith(_ZIP):
        raise FileRefused("format", f"{shown_path(path)} does not begin like a DOCX{_instead(data)}")
    check_docx(path, data)
    return "docx"


def _instead(head: bytes) -> str:
    return next((f" (it looks like {what})" for start, what in _OTHERS if head.startswith(start)), "")
