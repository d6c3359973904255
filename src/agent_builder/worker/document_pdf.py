"""The text of a PDF, page by page, by pypdf from the Agent's research environment."""

import importlib
import logging
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from agent_builder.worker.document_text import DocumentFault, Found, clean

_FORGET_PAGES = 16  # pages: after which what pypdf keeps of earlier ones is given back
_LAZY = ("pypdf.filters", "pypdf.generic", "pypdf._encryption", "pypdf._text_extraction", "subprocess", "decimal", "zlib", "hashlib", "unicodedata", "xml.etree.ElementTree")
_LINE_TAILS = re.compile(r"[ \t]+\n")
_EMPTY_LINES = re.compile(r"\n{3,}")


def prepare() -> Callable[[str, Found], Iterator[str]]:
    """Imports all that a page can need: nothing with machine code can be loaded later. Raises ImportError."""
    logging.disable(logging.CRITICAL)
    pypdf = importlib.import_module("pypdf")
    for name in _LAZY:
        importlib.import_module(name)
    return lambda path, found: _read(pypdf, path, found)


def _read(pypdf: ModuleType, path: str, found: Found) -> Iterator[str]:
    with open(path, "rb") as file:
        reader = _opened(pypdf, file)
        pages = _pages(reader)
        found.parts = len(pages)
        for number, page in enumerate(pages, 1):
            text = _text(pypdf, page, found)
            found.parts_read += 1
            yield _shown(number, text, found)
            if number % _FORGET_PAGES == 0:
                reader.resolved_objects.clear()
    if found.parts and found.parts_unreadable == found.parts:
        raise DocumentFault("limit" if found.limited else "damaged")


def _opened(pypdf: ModuleType, file: object) -> Any:
    """Most encrypted documents open without a password, for they only forbid printing or copying."""
    try:
        reader = pypdf.PdfReader(file)
        if reader.is_encrypted and not reader.decrypt(""):
            raise DocumentFault("encrypted")
    except (pypdf.errors.FileNotDecryptedError, pypdf.errors.DependencyError, NotImplementedError) as error:  # the last: of a cipher that pypdf does not know
        raise DocumentFault("encrypted") from error
    return reader


def _pages(reader: Any) -> list[Any]:
    """Those that are there, whatever number the document gives."""
    try:
        reader.get_page(0)
    except IndexError as error:
        raise DocumentFault("damaged") from error
    return list(reader.flattened_pages)


def _text(pypdf: ModuleType, page: Any, found: Found) -> str | None:
    """None when the page cannot be read: the others may be."""
    try:
        text = clean(page.extract_text())
    except MemoryError:
        raise
    except (pypdf.errors.LimitReachedError, RecursionError):
        found.limited = True
        return None
    except Exception:  # noqa: BLE001 - a broken page raises whatever it meets; the answer counts it
        return None
    return _EMPTY_LINES.sub("\n\n", _LINE_TAILS.sub("\n", text)).strip()


def _shown(number: int, text: str | None, found: Found) -> str:
    if text is None:
        found.parts_unreadable += 1
        return f"[page {number}: unreadable]\n\n"
    if not text:
        found.parts_empty += 1
        return f"[page {number}: no text]\n\n"
    found.measure(text)
    return f"[page {number}]\n{text}\n\n"
