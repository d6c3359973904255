"""The readers of documents on bytes that are almost right. They run here without confinement, so that many can be tried."""

import logging
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_builder.worker import document_docx, document_html, document_pdf, document_text
from agent_builder.worker.document_stub import extract, prepared
from agent_builder.worker.document_text import Found, TextRange, clean, read_plain
from tests.support import documents as made

ENDS = {"all", "ahead", "time", "memory", "limit", "damaged", "encrypted", "not_text", "charset"}
Reader = Callable[[str, Found], Iterator[str]]


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    """A parser silences its libraries for good; this process goes on."""
    yield
    logging.disable(logging.NOTSET)


def broken(data: bytes, times: int, seed: int, most: int = 8) -> Iterator[bytes]:
    """Bytes changed, cut, doubled and moved, the same ones each time."""
    random_ = random.Random(seed)
    for _ in range(times):
        changed = bytearray(data)
        for _ in range(random_.randint(1, most)):
            place, other = random_.randrange(len(changed)), random_.randrange(len(changed))
            match random_.randrange(4):
                case 0:
                    changed[place] = random_.randrange(256)
                case 1:
                    del changed[place : place + random_.randrange(40)]
                case 2:
                    changed[place:place] = changed[other : other + random_.randrange(40)]
                case 3:
                    changed[place : place + 1] = random_.choice([b"<<", b">>", b"[", b"-1", b"99999999999", b"\0", b"/", b"&#x110000;", b"<!--"])
            changed = changed or bytearray(b"x")
        yield bytes(changed)


def answers(reader: Reader, files: Iterator[bytes], place: Path) -> Iterator[dict[str, object]]:
    for data in files:
        place.write_bytes(data)
        answer = extract(reader, str(place), 0, 4096)
        assert answer["end"] in ENDS
        str(answer["text"]).encode()
        yield answer


def test_no_broken_pdf_makes_its_reader_fail_otherwise(library: Path, tmp_path: Path) -> None:
    good = made.pdf("One page\nof text", "and another")
    files = [good, made.chinese_pdf("你好，世界"), made.encrypted(good, "AES-128", "")]
    for seed, data in enumerate(files):
        found = list(answers(document_pdf.prepare(), broken(data, 100, seed), tmp_path / "a.pdf"))
        assert {"all", "damaged"} <= {answer["end"] for answer in found}


def test_no_broken_docx_makes_its_reader_fail_otherwise(library: Path, tmp_path: Path) -> None:
    reader = document_docx.prepare()
    assert list(answers(reader, broken(made.docx_with(made.SHORT), 40, 1), tmp_path / "a.docx"))
    xml = (made.BODY % (made.SHORT + "<w:tbl><w:tr><w:tc><w:p/></w:tc></w:tr></w:tbl>")).encode()
    parts = made.unpacked(made.docx_with(""))
    files = (made.packed({**parts, made.MAIN: changed}) for changed in broken(xml, 40, 2, most=1))
    assert {"all", "damaged"} <= {answer["end"] for answer in answers(reader, files, tmp_path / "b.docx")}


def test_no_broken_page_or_text_makes_its_reader_fail_otherwise(tmp_path: Path) -> None:
    page = '<!doctype html><meta charset="gbk"><title>t</title><p>你好<pre>x</pre><table><tr><td>a</table><script>if (a < b) {}</script>&amp;&#99;'
    for encoding in ("gbk", "utf-8", "utf-16"):
        assert list(answers(document_html.read_html, broken(page.encode(encoding), 300, 3), tmp_path / "a.html"))
        assert list(answers(read_plain, broken(page.encode(encoding), 100, 4), tmp_path / "a.txt"))


@pytest.mark.parametrize("page", ["<" * 9000, "<!--" * 900, "<a " * 900, "</" * 900, "&" * 99_000, "<table>" * 9000, "</p>" * 9000, "<script>" + "x" * 99_000, "<![CDATA[" * 900])
def test_a_page_of_nothing_but_beginnings_is_read_all_the_same(page: str, tmp_path: Path) -> None:
    assert next(answers(document_html.read_html, iter([page.encode()]), tmp_path / "a.html"))["end"] in ("all", "ahead", "damaged")


def test_text_of_a_page_is_the_same_in_whatever_pieces_it_is_fed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "<title>t</title><h1>A &amp; B</h1><p>one  <b>two</b> three<ul><li>x<li>y</ul><script>no</script><pre> a\n b</pre>" * 3
    whole = next(answers(document_html.read_html, iter([page.encode()]), tmp_path / "a.html"))["text"]
    monkeypatch.setattr(document_html, "_FED_CHARS", 7)
    assert next(answers(document_html.read_html, iter([page.encode()]), tmp_path / "a.html"))["text"] == whole
    assert whole == "t\n# A & B\none two three\n- x\n- y\n a\n b\n" * 3


def test_every_encoding_that_a_page_may_name_is_there() -> None:
    document_html.import_encodings()
    for label in ("gb2312", "Shift_JIS".lower(), "euc-jp", "euc-kr", "iso-8859-15", "windows-1251", "koi8-r", "iso-2022-jp"):
        assert document_html._codec(label)


@pytest.mark.parametrize("kind", ["pdf", "docx"])
def test_a_reader_without_its_library_says_so(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Reader:
        raise ImportError

    monkeypatch.setattr(document_pdf if kind == "pdf" else document_docx, "prepare", missing)
    monkeypatch.setattr("sys.path", [])
    assert extract(prepared(kind, str(tmp_path)), "never opened", 0, 1)["end"] == "library"


def test_a_range_keeps_exactly_its_characters_however_they_come() -> None:
    for size in (1, 3, 10):
        taken = TextRange(2, 5)
        for start in range(0, 10, size):
            taken.add("0123456789"[start : start + size])
        assert (taken.text, taken.chars, taken.full) == ("23456", 10, True)
    assert not TextRange(0, 1).full


def test_clean_text_has_one_kind_of_line_end_and_no_controls_or_half_characters() -> None:
    assert clean("a\r\nb\rc\x0cd\u2028e\x85f\x00\x1b[1m\ud800\t") == "a\nb\nc\nd\ne\nf[1m\ufffd\t"


def test_memory_that_runs_out_is_told_as_that(tmp_path: Path) -> None:
    def greedy(path: str, found: document_text.Found) -> Iterator[str]:
        yield "some"
        raise MemoryError

    answer = extract(greedy, "", 0, 10)
    assert (answer["text"], answer["end"], answer["chars"]) == ("some", "memory", 4)
