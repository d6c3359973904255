"""A parser of one document: imports what its kind needs, confines itself, says READY, waits for the release, reads the copy.

Started as `python -I -S -B <worker-env>/document KIND GRANTS LIBRARY` with the handshake of sandbox/launch.py. The libraries are trusted
(their hashes were checked when they were installed) and are imported before confinement, since executable memory is refused after
it; the document is opened after it. The answer is one JSON object on stdout: see `extract`.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator

from agent_builder.protocol.limits import DOCUMENT_AHEAD_S, DOCUMENT_PARSE_S
from agent_builder.sandbox.profiles import DOCUMENT, Grants
from agent_builder.sandbox.released import released
from agent_builder.worker import document_docx, document_html, document_pdf
from agent_builder.worker.document_text import DocumentFault, Found, TextRange, read_plain

KINDS = ("pdf", "docx", "html", "text")
Reader = Callable[[str, Found], Iterator[str]]


class TimeUp(BaseException):
    """The processor time is used up but for one second. No Exception, so that no library catches it."""


def main(worker_env: str) -> int:
    kind, grants, library = sys.argv[1], Grants(*(tuple(paths) for paths in json.loads(sys.argv[2]))), sys.argv[3]
    read = prepared(kind, library)
    signal.signal(signal.SIGXCPU, _time_is_up)
    first, most = map(int, released(DOCUMENT, grants, worker_env, qualify=sys.argv[4:] == ["--qualify"]))
    _write(json.dumps(extract(read, grants.read[0], first, most)).encode())
    return 0


def prepared(kind: str, library: str) -> Reader:
    """The reader of this kind. One whose library cannot be imported answers so."""
    if kind == "text":
        return read_plain
    if kind == "html":
        document_html.import_encodings()
        return document_html.read_html
    sys.path.append(library)
    try:
        return document_pdf.prepare() if kind == "pdf" else document_docx.prepare()
    except ImportError:
        return _no_library


def extract(read: Reader, path: str, first: int, most: int) -> dict[str, object]:
    """`text`: the characters from `first` on; `chars`: how many there are as far as it was read. `end`: "all", or why it was not read to
    its end: "ahead" (the wanted text is there), "time", "memory", or a fault of the document."""
    taken, found = TextRange(first, most), Found()
    end, detail = _end(read, path, taken, found)
    return {
        "text": taken.text, "chars": taken.chars, "end": end, "detail": detail, "parts": found.parts, "parts_read": found.parts_read,
        "parts_empty": found.parts_empty, "parts_unreadable": found.parts_unreadable, "visible": found.visible, "odd": found.odd,
        "charset": found.charset, "pictures": found.pictures,
    }


def _end(read: Reader, path: str, taken: TextRange, found: Found) -> tuple[str, str]:
    began = time.monotonic()
    try:
        for piece in read(path, found):
            taken.add(piece)
            spent = time.monotonic() - began
            if spent > (DOCUMENT_AHEAD_S if taken.full else DOCUMENT_PARSE_S):
                return "ahead" if taken.full else "time", ""
    except DocumentFault as fault:
        return fault.code, fault.detail
    except TimeUp:
        return "time", ""
    except MemoryError:
        return "memory", ""
    except RecursionError:
        return "limit", ""
    except Exception as error:  # noqa: BLE001 - a broken document raises whatever it meets; its name is the answer
        return "damaged", type(error).__name__
    return "all", ""


def _no_library(path: str, found: Found) -> Iterator[str]:
    raise DocumentFault("library")


def _time_is_up(number: int, frame: object) -> None:
    raise TimeUp


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]
