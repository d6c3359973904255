"""What every reader of a document shares: the range of text that is wanted, what was found on the way, and plain text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PIECE_CHARS = 1 << 16
_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_HALF_CHARACTERS = re.compile("[\ud800-\udfff]")
_VISIBLE = re.compile(r"\S")
_ODD = re.compile("[\u00a1-\u00ff\ue000-\uf8ff\ufffd]")
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


class DocumentFault(Exception):
    """Why a document gives no text; `code` is one word of the answer, `detail` a word that the document itself has."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail


@dataclass(slots=True)
class Found:
    """What a reader tells beside the text. `parts`: pages of a PDF. `odd` of `visible` characters look like bytes of another
    encoding. `charset`: how an HTML page was decoded. `pictures`: there are some.
    `limited`: an unreadable page met a bound of the library."""

    parts: int | None = None
    parts_read: int = 0
    parts_empty: int = 0
    parts_unreadable: int = 0
    visible: int = 0
    odd: int = 0
    charset: str = ""
    pictures: bool = False
    limited: bool = False

    def measure(self, text: str) -> None:
        self.visible += len(_VISIBLE.findall(text))
        self.odd += len(_ODD.findall(text))


class TextRange:
    """Counts characters as they come and keeps those from `first` on, at most `most`."""

    def __init__(self, first: int, most: int) -> None:
        self._first = first
        self._end = first + most
        self._kept: list[str] = []
        self.chars = 0

    def add(self, text: str) -> None:
        start, end = max(0, self._first - self.chars), max(0, self._end - self.chars)
        if start < end:
            self._kept.append(text[start:end])
        self.chars += len(text)

    @property
    def full(self) -> bool:
        return self.chars >= self._end

    @property
    def text(self) -> str:
        return "".join(self._kept)


def clean(text: str) -> str:
    """One kind of line end, no control characters, no half characters."""
    return _HALF_CHARACTERS.sub("\ufffd", _CONTROLS.sub("", _LINE_ENDS.sub("\n", text)))


def bom_of(data: bytes) -> tuple[str, int] | None:
    """The encoding that a byte order mark names, and its length."""
    return next(((name, len(mark)) for mark, name in _BOMS if data.startswith(mark)), None)


def pieces_of(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PIECE_CHARS):
        yield text[start : start + _PIECE_CHARS]


def read_plain(path: str, found: Found) -> Iterator[str]:
    """UTF-8, with or without a byte order mark."""
    with open(path, "rb") as file:
        data = file.read()
    if b"\0" in data:
        raise DocumentFault("not_text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentFault("not_text") from error
    found.visible = 1 if _VISIBLE.search(text) else 0
    yield from pieces_of(clean(text))
