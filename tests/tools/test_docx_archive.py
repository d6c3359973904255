"""The look at a DOCX before it is parsed: what no DOCX has is refused by its list of entries."""

import random
import stat
import struct
import warnings
import zipfile

import pytest

from agent_builder.capsule.paths import FileRefused
from agent_builder.protocol.limits import (
    DOCX_ENTRIES,
    DOCX_EXPANDED_BYTES,
    DOCX_NAME_BYTES,
    DOCX_RATIO_FREE_BYTES,
    DOCX_XML_BYTES,
)
from agent_builder.tools.docx_archive import check_docx
from tests.support.documents import MAIN, packed

WHOLE = {"[Content_Types].xml": b"<Types/>", MAIN: b"<w:document/>", "word/media/one.png": b"\x89PNG"}


def refusal(data: bytes) -> tuple[str, str]:
    with pytest.raises(FileRefused) as raised:
        check_docx("a.docx", data)
    return raised.value.reason, raised.value.sentence


def with_entry(name: str | zipfile.ZipInfo, content: bytes = b"x") -> bytes:
    return packed([*WHOLE.items(), (name, content)])


def with_size(data: bytes, size: int) -> bytes:
    """The last entry claims to expand to so many bytes."""
    place = data.rindex(b"PK\x01\x02") + 24
    return data[:place] + struct.pack("<L", size) + data[place + 4 :]


def test_an_ordinary_document_is_let_through() -> None:
    check_docx("a.docx", packed(WHOLE))
    check_docx("a.docx", packed(WHOLE, zipfile.ZIP_STORED))
    check_docx("a.docx", packed([*WHOLE.items(), ("文档/图片.png", b"x"), ("empty/", b"")]))


@pytest.mark.parametrize("name", ["../x", "word/../../x", "/etc/x", "word//x", "./x", "c:x", "word\\x", "a\nb", "a\x7fb", "../"])
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    info = zipfile.ZipInfo("x")
    info.filename = name
    assert refusal(with_entry(info))[0] == "archive"


@pytest.mark.parametrize("name", [MAIN, MAIN.upper()])
def test_two_entries_of_one_name_are_refused(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert refusal(with_entry(name)) == ("archive", "a.docx has two entries of the same name")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO])
def test_links_and_devices_are_refused(kind: int) -> None:
    info = zipfile.ZipInfo("word/link")
    info.external_attr = (kind | 0o777) << 16
    assert refusal(with_entry(info))[0] == "archive"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_of_packing_are_refused(method: int) -> None:
    assert refusal(packed(WHOLE, method))[0] == "archive"


def test_an_encrypted_entry_is_called_so() -> None:
    data = bytearray(packed(WHOLE))
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    assert refusal(bytes(data)) == ("encrypted", "a.docx is encrypted with a password, so its text cannot be read")


def test_an_archive_without_a_document_is_no_docx() -> None:
    assert refusal(packed({"xl/workbook.xml": b"<x/>"}))[0] == "format"


def test_the_number_of_entries_has_a_bound() -> None:
    entries = [*WHOLE.items(), *((f"word/{number}", b"") for number in range(DOCX_ENTRIES - len(WHOLE)))]
    check_docx("a.docx", packed(entries))
    assert refusal(packed([*entries, ("one more", b"")])) == ("too_large", f"a.docx has {DOCX_ENTRIES + 1} entries; at most {DOCX_ENTRIES} can be read")


def test_a_name_has_a_bound() -> None:
    check_docx("a.docx", with_entry("n" * DOCX_NAME_BYTES))
    assert refusal(with_entry("n" * (DOCX_NAME_BYTES + 1)))[0] == "archive"


def test_xml_has_a_bound() -> None:
    padding = random.Random(1).randbytes(DOCX_XML_BYTES // 99)
    data = packed([("padding", padding), *WHOLE.items(), ("word/styles.xml", b"<x/>")])
    check_docx("a.docx", with_size(data, DOCX_XML_BYTES))
    assert refusal(with_size(data, DOCX_XML_BYTES + 1))[0] == "too_large"


def test_what_it_expands_to_has_a_bound() -> None:
    padding = random.Random(1).randbytes(DOCX_EXPANDED_BYTES // 99)
    data = packed([("padding", padding), *WHOLE.items()])
    room = DOCX_EXPANDED_BYTES - len(padding) - sum(len(content) for name, content in WHOLE.items() if not name.endswith(".png"))
    check_docx("a.docx", with_size(data, room))
    assert refusal(with_size(data, room + 1))[0] == "too_large"


def test_a_ratio_counts_only_where_it_hurts() -> None:
    rest = sum(len(content) for name, content in WHOLE.items() if not name.endswith(".png"))
    check_docx("a.docx", with_size(packed(WHOLE), DOCX_RATIO_FREE_BYTES - rest))
    code, sentence = refusal(with_size(packed(WHOLE), DOCX_RATIO_FREE_BYTES - rest + 1))
    assert (code, "times its size" in sentence) == ("too_large", True)


def test_entries_that_lie_in_each_other_are_refused() -> None:
    data = packed(WHOLE)
    place = data.rindex(b"PK\x01\x02") + 20
    assert refusal(data[:place] + struct.pack("<L", len(data)) + data[place + 4 :])[0] == "archive"


@pytest.mark.parametrize("cut", [1, 10, 22, 60])
def test_a_cut_archive_is_called_damaged(cut: int) -> None:
    assert refusal(packed(WHOLE)[:-cut])[0] == "damaged"


def test_whatever_is_changed_it_is_let_through_or_refused_and_never_fails_otherwise() -> None:
    random_ = random.Random(20)
    data, found = packed(WHOLE), set()
    for _ in range(3000):
        changed = bytearray(data)
        for _ in range(random_.randint(1, 6)):
            changed[random_.randrange(len(changed))] = random_.randrange(256)
        found.add(looked_at(bytes(changed[: random_.randint(1, len(changed) * 2)])))
    assert {"ok", "damaged"} <= found <= {"ok", "archive", "damaged", "encrypted", "format", "too_large"}


def looked_at(data: bytes) -> str:
    try:
        check_docx("a.docx", data)
    except FileRefused as refused:
        return refused.reason
    return "ok"


def test_a_file_full_of_ends_and_entries_is_seen_through_at_once() -> None:
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 1, 1, 0)
    assert refusal(b"PK\x03\x04" + end * 700_000)[0] == "damaged"
