"""The readable text of an HTML page: what stands on it, without markup, scripts and styles."""

import codecs
import re
from collections.abc import Iterator
from html.parser import HTMLParser

from agent_builder.protocol.limits import DOCUMENT_HEAD_BYTES
from agent_builder.worker.document_text import DocumentFault, Found, bom_of, clean

_FED_CHARS = 1 << 13  # characters: what was read before a place on which the parser spends its time is there already
_CHARSET = re.compile(rb"""<meta[^>]{0,512}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.+-]{1,40})""", re.IGNORECASE)
_UTF8 = "utf-8"

# What the labels mean in browsers, source: the Encoding Standard. Others go by Python's own names where it has them.
_LABELS = {
    "ascii": "cp1252", "us-ascii": "cp1252", "iso-8859-1": "cp1252", "latin1": "cp1252", "iso-8859-9": "cp1254",
    "gb2312": "gb18030", "gbk": "gb18030", "gb18030": "gb18030", "x-gbk": "gb18030", "big5": "big5hkscs", "big5-hkscs": "big5hkscs",
    "shift_jis": "cp932", "shift-jis": "cp932", "sjis": "cp932", "x-sjis": "cp932", "windows-31j": "cp932", "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949", "utf-16": _UTF8, "utf-16le": _UTF8, "utf-16be": _UTF8, "tis-620": "cp874", "windows-874": "cp874",
}
_OTHERS = (
    "euc_jp", "iso2022_jp", "koi8_r", "koi8_u", *(f"cp125{page}" for page in range(9)), *(f"iso8859_{part}" for part in range(2, 17) if part != 12),
)

_DROPPED = {"script", "style", "template", "noframes"}
_BLOCKS = {
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "html", "legend", "li", "main", "menu", "nav", "ol",
    "optgroup", "option", "p", "pre", "search", "section", "select", "summary", "table", "tbody", "textarea", "tfoot", "thead",
    "title", "tr", "ul",
}
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_SPACES = re.compile(r"[ \t\n\u3000]*\n[ \t\n]*|[ \t]+")


def import_encodings() -> None:
    """What a page may name must be loaded before executable memory is refused."""
    for name in {*_LABELS.values(), *_OTHERS, "utf-16-le", "utf-16-be"}:
        codecs.lookup(name)


def read_html(path: str, found: Found) -> Iterator[str]:
    with open(path, "rb") as file:
        data = file.read()
    text = clean(_decoded(data, found))
    page = _Page()
    for start in range(0, len(text), _FED_CHARS):
        page.feed(text[start : start + _FED_CHARS])
        yield from _measured(page.taken(), found)
    page.close()
    yield from _measured(page.taken(), found)
    found.pictures = page.pictures


def _measured(text: str, found: Found) -> Iterator[str]:
    if text:
        found.measure(text)
        yield text


def _decoded(data: bytes, found: Found) -> str:
    """By its byte order mark, by what it declares, as UTF-8; a page that is none of these is refused rather than guessed."""
    mark = bom_of(data)
    if mark is not None:
        found.charset = mark[0]
        return data[mark[1] :].decode(mark[0], "replace")
    declared = _CHARSET.search(data[:DOCUMENT_HEAD_BYTES])
    label = declared[1].decode("ascii").lower() if declared else _UTF8
    found.charset = _codec(label)
    if declared and found.charset != _UTF8:
        return data.decode(found.charset, "replace")
    try:
        return data.decode(_UTF8)
    except UnicodeDecodeError as error:
        if declared:  # a page that says so and has some broken bytes
            return data.decode(_UTF8, "replace")
        raise DocumentFault("charset", "no charset") from error


def _codec(label: str) -> str:
    name = _LABELS.get(label, label)
    try:
        found = codecs.lookup(name).name
    except LookupError as error:
        raise DocumentFault("charset", label) from error
    known = {codecs.lookup(one).name for one in (_UTF8, *_LABELS.values(), *_OTHERS)}
    if found not in known:
        raise DocumentFault("charset", label)
    return found


class _Page(HTMLParser):
    """Collects text; `taken` gives what is finished since the last time."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pictures = False
        self._dropped: str | None = None
        self._pre = 0
        self._out: list[str] = []
        self._ends = "\n"  # what the text so far ends with: nothing is put before the first word

    def taken(self) -> str:
        text, self._out = "".join(self._out), []
        return text

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._dropped is not None:
            return
        if tag in _DROPPED:
            self._dropped = tag
        elif tag in _HEADINGS:
            self._break()
            self._put(_HEADINGS[tag] + " ")
        elif tag == "br":
            self._put("\n")
        elif tag in ("td", "th"):
            self._put("" if self._ends.endswith("\n") else " | ")
        elif tag == "img":
            self._picture(dict(attrs).get("alt"))
        elif tag in _BLOCKS:
            self._break()
            self._put("- " if tag == "li" else "")
        self._pre += tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        if self._dropped is not None:
            self._dropped = None if tag == self._dropped else self._dropped
        elif tag in _BLOCKS or tag in _HEADINGS:
            self._break()
        if tag == "pre" and self._pre:
            self._pre -= 1

    def handle_data(self, data: str) -> None:
        if self._dropped is not None:
            return
        text = data if self._pre else _SPACES.sub(" ", data)
        self._put(text.lstrip(" ") if self._ends.endswith(("\n", " ")) and not self._pre else text)

    def _picture(self, words: str | None) -> None:
        self.pictures = True
        if words and words.strip():
            self._put(f"[picture: {clean(words.strip())}]")

    def _break(self) -> None:
        if not self._ends.endswith("\n"):
            self._put("\n")

    def _put(self, text: str) -> None:
        if text:
            self._out.append(text)
            self._ends = text[-2:]
