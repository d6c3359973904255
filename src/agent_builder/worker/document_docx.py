"""The text of a DOCX in the order of the document: python-docx opens the archive, its XML is walked here.

Insertions are text and deletions are not. Tables stand where they are, a row a line. Text boxes follow the paragraph that holds
them; headers, footers, notes and comments follow the body under a line that names them.
"""

import importlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from agent_builder.worker.document_text import DocumentFault, Found, clean

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_LAZY = ("docx", "lxml.etree", "zipfile", "zlib", "encodings.cp437", "encodings.utf_16", "encodings.latin_1", "encodings.ascii")

_P, _TBL, _TR, _TC, _T = f"{_W}p", f"{_W}tbl", f"{_W}tr", f"{_W}tc", f"{_W}t"
_MATH_TEXT = f"{_M}t"
_ALTERNATIVES, _CHOICE = f"{_MC}AlternateContent", f"{_MC}Choice"
_BOX = f"{_W}txbxContent"
_GONE = {f"{_W}{name}" for name in ("del", "moveFrom", "delText", "instrText", "pPr", "rPr", "tblPr", "trPr", "tcPr", "sectPr", "tblGrid")}
_MARKS = {
    f"{_W}tab": "\t", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-", f"{_W}footnoteReference": "[note]",
    f"{_W}endnoteReference": "[note]",
}
_SIDE_PARTS = ("header", "footer", "footnotes", "endnotes", "comments")
_SEPARATORS = {"separator", "continuationSeparator", "continuationNotice"}


def prepare() -> Callable[[str, Found], Iterator[str]]:
    """Imports all that is needed. Raises ImportError."""
    modules = {name: importlib.import_module(name) for name in _LAZY}
    etree = modules["lxml.etree"]
    etree.fromstring(b"<a/>")
    return lambda path, found: _read(modules["docx"], etree, path, found)


def _read(docx: ModuleType, etree: ModuleType, path: str, found: Found) -> Iterator[str]:
    try:
        with open(path, "rb") as file:
            document = docx.Document(file)
        yield from _measured(_blocks(document.element.body), found)
        yield from _sides(etree, document.part, found)
    except etree.XMLSyntaxError as error:
        raise DocumentFault(_syntax_code(error)) from error


def _syntax_code(error: Any) -> str:
    """libxml2 has bounds of its own, for depth and for the length of one text."""
    words = str(error)
    return "limit" if any(word in words for word in ("huge", "depth", "memory", "too long", "loop", "XML_PARSE_HUGE")) else "damaged"


def _measured(blocks: Iterator[str], found: Found) -> Iterator[str]:
    for block in blocks:
        text = clean(block)
        found.measure(text)
        yield f"{text}\n"


def _sides(etree: ModuleType, part: Any, found: Found) -> Iterator[str]:
    """Each part once, in the order of their kinds and names."""
    parts = {}
    for relation in part.rels.values():
        kind = relation.reltype.rpartition("/")[2]
        if kind in _SIDE_PARTS and not relation.is_external:
            parts[_SIDE_PARTS.index(kind), str(relation.target_part.partname)] = kind, relation.target_part
    for _, (kind, side) in sorted(parts.items()):
        parser = etree.XMLParser(resolve_entities=False, no_network=True)
        blocks = list(_side_blocks(etree.fromstring(side.blob, parser)))
        if any(block.strip() for block in blocks):
            yield f"[{kind}]\n"
            yield from _measured(iter(blocks), found)


def _side_blocks(root: Any) -> Iterator[str]:
    """A note or comment is an element around its paragraphs; the lines between body and notes are notes too, without text."""
    for child in root:
        if child.tag in (_P, _TBL):
            yield from _block(child)
        elif isinstance(child.tag, str) and child.get(f"{_W}type") not in _SEPARATORS:
            yield from _blocks(child)


def _blocks(container: Any) -> Iterator[str]:
    for child in container:
        yield from _block(child)


def _block(element: Any) -> Iterator[str]:
    tag = element.tag
    if tag == _P:
        yield from _paragraph(element)
    elif tag == _TBL:
        yield from _rows(element)
    elif tag == _ALTERNATIVES:
        yield from _blocks(_chosen(element))
    elif isinstance(tag, str) and tag not in _GONE:
        yield from _blocks(element)  # content controls, insertions and whatever else is around blocks


def _paragraph(element: Any) -> Iterator[str]:
    out: list[str] = []
    boxes: list[Any] = []
    _inline(element, out, boxes)
    yield _before(element) + "".join(out)
    for box in boxes:
        yield "[text box]"
        yield from _blocks(box)


def _before(paragraph: Any) -> str:
    """Marks of a heading or of an entry of a list."""
    properties = paragraph.find(f"{_W}pPr")
    if properties is None:
        return ""
    style = properties.find(f"{_W}pStyle")
    name = (style.get(f"{_W}val") or "").lower() if style is not None else ""
    level = name.removeprefix("heading")
    if level != name and level in ("1", "2", "3", "4", "5", "6"):
        return "#" * int(level) + " "
    return "# " if name == "title" else "- " if properties.find(f"{_W}numPr") is not None or name.startswith("list") else ""


def _rows(table: Any) -> Iterator[str]:
    """A table in a cell follows as text of that cell."""
    for row in table:
        if row.tag == _TR:
            yield " | ".join(" / ".join(filter(None, _blocks(cell))) for cell in _cells(row))
        elif isinstance(row.tag, str) and row.tag not in _GONE:
            yield from _rows(row)


def _cells(row: Any) -> Iterator[Any]:
    for cell in row:
        if cell.tag == _TC:
            yield cell
        elif isinstance(cell.tag, str) and cell.tag not in _GONE:
            yield from _cells(cell)


def _inline(element: Any, out: list[str], boxes: list[Any]) -> None:
    for child in element:
        tag = child.tag
        if tag in (_T, _MATH_TEXT):
            out.append(child.text or "")
        elif tag in _MARKS:
            out.append(_MARKS[tag])
        elif tag == _BOX:
            boxes.append(child)
        elif tag == _ALTERNATIVES:
            _inline(_chosen(child), out, boxes)
        elif isinstance(tag, str) and tag not in _GONE:
            _inline(child, out, boxes)


def _chosen(alternatives: Any) -> Any:
    """The same thing twice, for newer and older programs: the first of them."""
    choice = alternatives.find(_CHOICE)
    return choice if choice is not None else (alternatives[0] if len(alternatives) else alternatives)
