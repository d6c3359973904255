"""document/extract_text with its real parser, confined, and the real packages."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from agent_builder.capsule.command_runner import CommandEnd
from agent_builder.protocol.events import ToolCallFinished
from agent_builder.protocol.limits import (
    DOCUMENT_CHARS,
    DOCUMENT_FILE_BYTES,
    DOCUMENT_RESULT_BYTES,
    DOCUMENT_TEXT_BYTES,
    DOCUMENT_WALL_S,
)
from agent_builder.tools import document
from agent_builder.tools.broker import CapabilityBroker, CapabilityResult
from tests.support import documents as made
from tests.support.capability import ToolRun, children, make_run, most_at_once, put

TOOL = "document/extract_text"
STORY = "\n".join(f"Line {number} of the story." for number in range(60))


async def read(run: ToolRun, path: str, content: bytes | str, **more: object) -> CapabilityResult:
    """The result for a file with this content; whatever it is, nothing is left of the copy."""
    put(run.workspace, path, content)
    result = await run.call(TOOL, path=path, **more)
    assert run.left_over() == []
    assert len(result.text.encode()) <= DOCUMENT_RESULT_BYTES
    assert content not in (result.text, result.text.encode()) or not content
    return result


def told(result: CapabilityResult) -> tuple[str, str | None, str]:
    return result.outcome, result.code, result.text


# formats ---------------------------------------------------------------------------------------------------------


async def test_a_pdf_is_read_page_by_page(document_run: ToolRun) -> None:
    result = await read(document_run, "report.pdf", made.pdf("First page\nsecond line", "Last page"))
    text = "[page 1]\nFirst page\nsecond line\n\n[page 2]\nLast page\n\n"
    assert told(result) == ("ok", None, f"report.pdf: PDF, 2 pages, {len(text)} characters\n{text}")
    receipt = result.receipt
    assert (receipt["format"], receipt["pages"], receipt["total_chars"], receipt["truncated"]) == ("pdf", 2, len(text), False)
    assert (receipt["shown_chars"], receipt["bytes"], receipt["complete"]) == (len(text), len(result.text), True)
    assert len(str(receipt["content_digest"])) == len(str(receipt["text_digest"])) == 64
    assert "First" not in str(receipt)


async def test_its_calls_are_audited_and_nobody_is_asked(document_run: ToolRun) -> None:
    result = await read(document_run, "a.md", "# Notes\n")
    assert document_run.types() == ["tool.call.proposed", "tool.call.started", "tool.call.finished"]
    finished = document_run.last(ToolCallFinished)
    assert isinstance(finished, ToolCallFinished)
    assert (finished.outcome, finished.receipt) == ("ok", result.receipt)


async def test_what_it_shows_does_not_count_as_read(document_run: ToolRun) -> None:
    await read(document_run, "a.md", "# Notes\n")
    result = await document_run.call("file/edit", path="a.md", old="Notes", new="News")
    assert (result.outcome, result.code) == ("refused", "not_read")


async def test_chinese_in_a_pdf_is_read_through_its_table_of_characters(document_run: ToolRun) -> None:
    result = await read(document_run, "报告.pdf", made.chinese_pdf("你好，世界！研究报告"))
    assert told(result) == ("ok", None, "报告.pdf: PDF, 1 page, 21 characters\n[page 1]\n你好，世界！研究报告\n\n")


async def test_markdown_and_text_stay_as_they_are_but_for_line_ends_and_controls(document_run: ToolRun) -> None:
    result = await read(document_run, "a.md", b"\xef\xbb\xbf# \xe6\xa0\x87\xe9\xa2\x98\r\n\r\n* one\x07\rtwo\x00"[:-1])
    assert told(result) == ("ok", None, "a.md: text, 15 characters\n# 标题\n\n* one\ntwo")


async def test_html_gives_what_stands_on_the_page(document_run: ToolRun) -> None:
    page = (
        "<!doctype html><html><head><title>Report</title><style>p{color:red}</style><script>var x = '<p>no</p>';</script></head><body><!-- no -->"
        "<h2>One &amp; two</h2><p>A  <b>bold</b>\n word<br>next&nbsp;line</p><ul><li>first<li>second</ul><table><tr><th>a<th>b<tr><td>1<td>2</table>"
        "<pre>  kept\n   so</pre><template>no</template><img alt='a cat' src=x><p>end"
    )
    result = await read(document_run, "page.html", page)
    assert result.text.split("\n", 1)[1] == (
        "Report\n## One & two\nA bold word\nnext\xa0line\n- first\n- second\na | b\n1 | 2\n  kept\n   so\n[picture: a cat]\nend"
    )


@pytest.mark.parametrize(("name", "data"), [
    ("meta.html", '<meta charset="gbk"><p>你好'.encode("gbk")),
    ("equiv.html", '<meta http-equiv=Content-Type content="text/html; charset=gb2312"><p>你好'.encode("gbk")),
    ("four.html", '<meta charset=gb18030><p>你好'.encode("gb18030")),
    ("big5.htm", '<meta charset=Big5><p>你好'.encode("big5")),
    ("wide.html", "\ufeff<p>你好".encode("utf-16-le")),
    ("bom.html", "\ufeff<meta charset=gbk><p>你好".encode()),
    ("plain.html", "<p>你好".encode()),
    ("no-name", "<!DOCTYPE html><p>你好".encode()),
])
async def test_html_is_decoded_as_it_says(document_run: ToolRun, name: str, data: bytes) -> None:
    result = await read(document_run, name, data)
    assert (result.outcome, result.text.split("\n", 1)[1]) == ("ok", "你好")


@pytest.mark.parametrize(("name", "data", "words"), [
    ("a.html", "<p>你好".encode("gbk"), "is not UTF-8 and declares no charset"),
    ("a.html", b"<meta charset=x-klingon><p>\xe4", "is encoded as x-klingon, which cannot be decoded here"),
    ("a.html", b"<meta charset=rot13><p>a", "is encoded as rot13, which cannot be decoded here"),
    ("a.txt", "你好".encode("gbk"), "is not UTF-8 text"),
    ("a.md", b"x" * 2000 + b"\0", "is not UTF-8 text"),
    ("a.txt", "\ufeffwide".encode("utf-16-le"), "the operator can save it as UTF-8"),
])
async def test_text_of_an_unknown_encoding_is_refused_rather_than_guessed(document_run: ToolRun, name: str, data: bytes, words: str) -> None:
    result = await read(document_run, name, data)
    assert (result.outcome, result.code) == ("refused", "not_text")
    assert words in result.text


async def test_a_docx_is_read_in_its_order(document_run: ToolRun) -> None:
    written = made.new_docx()
    written.add_heading("标题", 1)
    written.add_paragraph("before")
    table = written.add_table(2, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "a", "b"
    table.cell(1, 0).merge(table.cell(1, 1)).text = "once"
    table.cell(0, 1).add_table(1, 1).cell(0, 0).text = "nested"
    written.add_paragraph("after")
    written.add_paragraph("entry", style="List Bullet")
    written.sections[0].header.paragraphs[0].text = "above"
    written.sections[0].footer.paragraphs[0].text = "below"
    result = await read(document_run, "a.docx", made.saved(written))
    assert result.text.split("\n", 1)[1] == "# 标题\nbefore\na | b / nested\nonce\nafter\n- entry\n[header]\nabove\n[footer]\nbelow\n"


async def test_insertions_are_text_deletions_are_not_and_nothing_is_told_twice(document_run: ToolRun) -> None:
    compatible = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    box = "<w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p></w:txbxContent>"
    body = (
        "<w:p><w:r><w:t>kept</w:t></w:r><w:ins><w:r><w:t> new</w:t></w:r></w:ins><w:del><w:r><w:delText> old</w:delText></w:r></w:del>"
        "<w:hyperlink><w:r><w:t> link</w:t></w:r></w:hyperlink><w:r><w:instrText>PAGE</w:instrText><w:tab/><w:t>7</w:t><w:softHyphen/></w:r></w:p>"
        f"<w:p><w:r><mc:AlternateContent {compatible}><mc:Choice Requires='wps'>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback></mc:AlternateContent></w:r></w:p>"
        "<w:sdt><w:sdtContent><w:p><w:r><w:t>controlled</w:t></w:r></w:p></w:sdtContent></w:sdt>"
    )
    result = await read(document_run, "a.docx", made.docx_with(body))
    assert result.text.split("\n", 1)[1] == "kept new link\t7\n\n[text box]\nboxed\ncontrolled\n"


async def test_notes_and_comments_follow_the_body(document_run: ToolRun) -> None:
    notes = f'<w:footnotes xmlns:w="{made.WORD}"><w:footnote w:type="separator" w:id="0"><w:p><w:r><w:t>---</w:t></w:r></w:p></w:footnote><w:footnote w:id="2"><w:p><w:r><w:t>脚注内容</w:t></w:r></w:p></w:footnote></w:footnotes>'
    base = made.unpacked(made.saved(made.new_docx()))
    relations = base["word/_rels/document.xml.rels"].replace(
        b"</Relationships>", b'<Relationship Id="rId99" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes" Target="footnotes.xml"/></Relationships>'
    )
    types = base["[Content_Types].xml"].replace(
        b"</Types>", b'<Override PartName="/word/footnotes.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"/></Types>'
    )
    more = {"word/_rels/document.xml.rels": relations, "[Content_Types].xml": types, "word/footnotes.xml": notes.encode()}
    result = await read(document_run, "a.docx", made.docx_with("<w:p><w:r><w:t>body</w:t><w:footnoteReference w:id='2'/></w:r></w:p>", more))
    assert result.text.split("\n", 1)[1] == "body[note]\n[footnotes]\n脚注内容\n"


# parts -----------------------------------------------------------------------------------------------------------


async def test_parts_follow_each_other_without_a_gap_and_the_same_way_each_time(document_run: ToolRun) -> None:
    put(document_run.workspace, "story.pdf", made.pdf(STORY, STORY))
    parts, offset = [], 0
    for _ in range(9):
        result = await make_run(document_run.workspace.parent, document_run.worker_env, document_run.library).call(
            TOOL, path="story.pdf", offset_chars=offset, max_chars=1000
        )
        heading, text = result.text.split("\n", 1)
        parts.append(text)
        offset += len(text)
        if "for more" not in heading:
            break
        assert heading.endswith(f"; for more call document_extract_text with offset_chars {offset}")
        assert result.receipt["truncated"] is True
    whole = (await document_run.call(TOOL, path="story.pdf")).text.split("\n", 1)[1]
    assert "".join(parts) == whole
    assert len(whole) == result.receipt["total_chars"] == offset
    assert heading == f"story.pdf: PDF, 2 pages, characters 2000-{offset - 1} of {offset} characters"


async def test_a_call_shows_at_most_so_many_characters(document_run: ToolRun) -> None:
    result = await read(document_run, "a.txt", "汉" * DOCUMENT_CHARS)
    assert (result.receipt["shown_chars"], result.receipt["truncated"]) == (DOCUMENT_CHARS, False)
    result = await read(document_run, "b.txt", "汉" * (DOCUMENT_CHARS + 1))
    assert (result.receipt["shown_chars"], result.receipt["truncated"]) == (DOCUMENT_CHARS, True)
    rare = await read(document_run, "c.txt", "𠮷" * DOCUMENT_CHARS)
    assert (rare.receipt["shown_chars"], f"offset_chars {DOCUMENT_TEXT_BYTES // 4}" in rare.text) == (DOCUMENT_TEXT_BYTES // 4, True)
    assert (await document_run.call(TOOL, path="a.txt", max_chars=DOCUMENT_CHARS + 1)).code == "arguments"
    assert (await document_run.call(TOOL, path="a.txt", offset_chars=-1)).code == "arguments"


async def test_behind_the_end_it_says_where_the_end_is(document_run: ToolRun) -> None:
    assert (await read(document_run, "a.txt", "four", offset_chars=3)).text.endswith("\nr")
    past = await read(document_run, "a.txt", "four", offset_chars=4)
    assert told(past) == ("refused", "past_end", "a.txt has 4 characters; call again with a smaller offset_chars")


async def test_a_document_may_have_16_mib_and_not_one_byte_more(document_run: ToolRun) -> None:
    largest = await read(document_run, "a.txt", b"0123456789abcdef" * (DOCUMENT_FILE_BYTES // 16), offset_chars=DOCUMENT_FILE_BYTES - 3)
    assert told(largest)[0::2] == ("ok", f"a.txt: text, characters {DOCUMENT_FILE_BYTES - 3}-{DOCUMENT_FILE_BYTES - 1} of {DOCUMENT_FILE_BYTES} characters\ndef")
    above = await read(document_run, "b.txt", b"x" * (DOCUMENT_FILE_BYTES + 1))
    assert told(above) == ("refused", "too_large", f"b.txt has {DOCUMENT_FILE_BYTES + 1} bytes; at most {DOCUMENT_FILE_BYTES} can be used")


async def test_a_thousand_pages_are_read_as_far_as_needed_and_it_says_so(document_run: ToolRun) -> None:
    result = await read(document_run, "long.pdf", made.pdf(*[f"{STORY}\n{STORY}"] * 1000))
    heading, text = result.text.split("\n", 1)
    assert heading.startswith("long.pdf: PDF, 1000 pages, characters 0-4095 of more than ")
    assert (len(text), result.receipt["complete"], result.receipt["truncated"]) == (DOCUMENT_CHARS, False, True)


async def test_thirty_thousand_paragraphs_are_read(document_run: ToolRun) -> None:
    result = await read(document_run, "a.docx", made.docx_with(made.SHORT * 30_000), offset_chars=5 * 29_999)
    assert result.text == "a.docx: DOCX, characters 149995-149999 of 150000 characters\nAAAA\n"


# no text ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["AES-256", "AES-128", "RC4-128", "RC4-40"])
async def test_an_encrypted_pdf_that_needs_no_password_is_read(document_run: ToolRun, algorithm: str) -> None:
    result = await read(document_run, "a.pdf", made.encrypted(made.pdf("Open to all"), algorithm, ""))
    assert (result.outcome, "Open to all" in result.text) == ("ok", True)


async def test_a_document_that_needs_a_password_says_so(document_run: ToolRun) -> None:
    plain = made.pdf("Secret")
    unknown = plain.replace(b"/Root 1 0 R", b"/Encrypt << /Filter /Foo /V 1 >> /ID [<00><00>] /Root 1 0 R")
    office = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(512) + "EncryptedPackage".encode("utf-16-le") + bytes(64)
    for name, data in {"a.pdf": made.encrypted(plain, "AES-256", "x"), "b.pdf": unknown, "c.docx": office}.items():
        result = await read(document_run, name, data)
        assert (result.outcome, result.code) == ("refused", "encrypted")
        assert "only its owner can save a copy without one" in result.text


async def test_pages_without_text_are_no_success(document_run: ToolRun) -> None:
    scanned = await read(document_run, "scan.pdf", made.pdf("", "", ""))
    assert (scanned.outcome, scanned.code, scanned.receipt["pages"]) == ("refused", "no_text", 3)
    assert scanned.text.startswith("scan.pdf has 3 pages and no text on any of them: they are pictures, probably scanned")
    mixed = await read(document_run, "mixed.pdf", made.pdf("words", ""))
    assert mixed.text.split("\n")[1] == "(1 page of those read without text, perhaps pictures, which cannot be read here)"


@pytest.mark.parametrize(("name", "data", "words"), [
    ("a.md", b"", "a.md is empty (0 bytes)"), ("a.pdf", b"", "a.pdf is empty (0 bytes)"), ("a.md", b" \n\n", "a.md has no text in it"),
    ("a.html", b"<img src=x><p>", "a.html has no text in it but pictures, which cannot be read here"), ("a.html", b"<script>x</script>", "a.html has no text in it"),
])
async def test_an_empty_document_is_no_success(document_run: ToolRun, name: str, data: bytes, words: str) -> None:
    assert told(await read(document_run, name, data)) == ("refused", "no_text", words)


async def test_an_empty_docx_is_no_success(document_run: ToolRun) -> None:
    assert told(await read(document_run, "a.docx", made.docx_with("<w:p/>"))) == ("refused", "no_text", "a.docx has no text in it")


@pytest.mark.parametrize(("name", "data", "words"), [
    ("a.pdf", b"\x89PNG\r\n\x1a\n", "a.pdf does not begin like a PDF (it looks like a PNG picture)"),
    ("a.pdf", b"hello", "a.pdf does not begin like a PDF"),
    ("a.docx", b"hello", "a.docx does not begin like a DOCX"),
    ("a.docx", bytes.fromhex("d0cf11e0a1b11ae1") + bytes(99), "(it looks like a file of an older Office program)"),
    ("a.docx", made.packed({"xl/workbook.xml": b"<x/>"}), "is a zip archive, but no DOCX"),
    ("a.xlsx", made.packed({"xl/workbook.xml": b"<x/>"}), "a.xlsx is a binary file (it looks like a zip archive)"),
    ("a.rtf", b"{\\rtf1 x}", "PDF, DOCX, HTML, Markdown and UTF-8 text can be read"),
    ("a.bin", b"a\0b", "a.bin is a binary file; PDF, DOCX"),
])
async def test_what_is_another_format_is_refused_with_what_it_is(document_run: ToolRun, name: str, data: bytes, words: str) -> None:
    result = await read(document_run, name, data)
    assert (result.outcome, result.code) == ("refused", "format")
    assert words in result.text


async def test_a_pdf_is_known_by_its_content_and_may_have_something_before_it(document_run: ToolRun) -> None:
    assert (await read(document_run, "a", made.pdf("words"))).receipt["format"] == "pdf"
    assert (await read(document_run, "b.pdf", b"\r\n\r\n" + made.pdf("words"))).receipt["format"] == "pdf"


PLAIN = made.pdf("Hello World")
START = int(PLAIN[PLAIN.rindex(b"startxref") :].split()[1])


@pytest.mark.parametrize(("data", "outcomes"), [
    (PLAIN.replace(b"/Root 1 0 R", b"/Root 1 0 R /Prev %d" % START), {"ok"}),
    (PLAIN.replace(b"/Count 1", b"/Count 999999999"), {"ok"}),
    (PLAIN.replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]"), {"damaged"}),
    (PLAIN.replace(b"/Kids [4 0 R]", b"/Kids []"), {"damaged"}),
    (PLAIN[: PLAIN.index(b"xref\n")], {"damaged"}),
    (PLAIN.replace(b"Tj", b"BI /W 9 /H 9 ID"), {"damaged"}),
    (b"%PDF-1.7", {"damaged"}),
    (PLAIN.replace(b"[0 0 612 792]", b"[0 0 1%s 792]" % (b"0" * 400)), {"ok", "damaged"}),
    (PLAIN.replace(b"[0 0 612 792]", b"[" * 50_000 + b"]" * 50_000), {"ok", "damaged", "limit"}),
    (made.pdf_with([b"/X Do"], made.HELVETICA, [made.stream(b"/X Do", b"/Type /XObject /Subtype /Form ")], b"/XObject << /X 6 0 R >> "), {"no_text", "damaged", "limit"}),
    (made.packed_bomb(), {"limit"}),
], ids=["prev", "count", "kids", "none", "cut", "inline", "head", "number", "deep", "loop", "bomb"])
async def test_a_hostile_pdf_ends_with_one_clear_result(document_run: ToolRun, data: bytes, outcomes: set[str]) -> None:
    result = await read(document_run, "a.pdf", data)
    assert (result.code or result.outcome) in outcomes, result.text
    assert "Traceback" not in result.text


@pytest.mark.parametrize(("data", "code"), [
    (lambda: made.docx_with("<w:tbl><w:tr><w:tc>" * 300 + "<w:p/>" + "</w:tc></w:tr></w:tbl>" * 300), "limit"),
    (lambda: made.docx_with(made.SHORT * 200_000), "too_large"),
    (lambda: made.docx_with("<w:p>&x;</w:p>"), "damaged"),
    (lambda: made.docx_with("<w:p>"), "damaged"),
    (lambda: made.packed({made.MAIN: b"<w/>"}), "damaged"),
    (lambda: made.packed({made.MAIN: b"<w/>", "../x": b""}), "archive"),
], ids=["deep", "large", "entity", "open", "alone", "name"])
async def test_a_hostile_docx_ends_with_one_clear_result(document_run: ToolRun, data: object, code: str) -> None:
    assert callable(data)
    result = await read(document_run, "a.docx", data())
    assert result.code == code, result.text


async def test_entities_of_a_docx_are_not_expanded(document_run: ToolRun) -> None:
    canary = put(document_run.workspace.parent, "canary", "SECRET")
    document = f'<!DOCTYPE x [<!ENTITY x SYSTEM "file://{canary}"><!ENTITY y "yyyy">]>' + made.BODY.split("?>", 1)[1] % "<w:p><w:r><w:t>a&x;&y;b</w:t></w:r></w:p>"
    result = await read(document_run, "a.docx", made.docx_with("", {made.MAIN: document.encode()}))
    assert "SECRET" not in result.text
    assert "yyyy" not in result.text


async def test_a_size_that_lies_does_not_get_past_the_parser_s_memory(document_run: ToolRun) -> None:
    bomb = bytearray(made.docx_with("A" * 11_000_000))
    place = bomb.index(b"PK\x01\x02", bomb.rindex(b"PK\x01\x02", 0, bomb.rindex(b"PK\x05\x06")) - 2000)
    while bomb[place + 46 : place + 46 + len(made.MAIN)] != made.MAIN.encode():
        place = bomb.index(b"PK\x01\x02", place + 1)
    bomb[place + 24 : place + 28] = (100).to_bytes(4, "little")
    assert (await read(document_run, "a.docx", bytes(bomb))).code in ("damaged", "limit")


async def test_text_that_looks_garbled_is_given_with_a_warning(document_run: ToolRun) -> None:
    garbled = "全世界都在用这个文件格式来交换研究报告".encode("gbk").decode("latin-1")
    result = await read(document_run, "a.pdf", made.pdf(garbled.replace("\\", "").replace("(", "").replace(")", ""), font=made.HELVETICA.replace(b"/BaseFont", b"/Encoding /WinAnsiEncoding /BaseFont")))
    assert result.outcome == "ok"
    assert "looks garbled" in result.text.split("\n")[1]


# bounds and ends -------------------------------------------------------------------------------------------------


async def test_a_parser_that_uses_up_its_processor_time_gives_what_it_has(document_run: ToolRun, worker_env: Path, tmp_path: Path) -> None:
    """With a second instead of eight."""
    document_run.broker = CapabilityBroker(document_run.permissions, document_run.clock, hasty(worker_env, tmp_path), library=lambda: document_run.library)
    endless = made.endless_pdf()
    result = await read(document_run, "a.pdf", endless)
    assert (result.outcome, result.code) == ("failed", "limit")
    assert result.text == "a.pdf cannot be read: it needs more than the 8 s that one call may take"
    mixed = endless.replace(b"/Count 1 /Kids [4 0 R]", b"/Count 2 /Kids [99 0 R 4 0 R]")
    first = b"99 0 obj\n<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 98 0 R /Resources << /Font << /F1 3 0 R >> >> >>\nendobj\n98 0 obj\n%s\nendobj\n" % made.stream(b"BT /F1 9 Tf (before) Tj ET")
    partial = await read(document_run, "b.pdf", mixed[: mixed.index(b"xref\n")] + first + b"trailer << /Root 1 0 R >>\nstartxref\n1\n%%EOF")
    assert partial.text == (
        "b.pdf: PDF, 2 pages, characters 0-16 of more than 17 characters\n"
        "(only the first 1 page could be read: it needs more than the 8 s that one call may take)\n[page 1]\nbefore\n\n"
    )
    slow = await read(document_run, "c.html", "<p>before" + " and after" * 900 + "<a " * 30_000)
    assert slow.text.split("\n")[1:3] == ["(only the beginning could be read: it needs more than the 8 s that one call may take)", "before" + " and after" * 409]


def hasty(worker_env: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "hasty"
    shutil.copytree(worker_env, copy)
    for cache in copy.rglob("__pycache__"):
        shutil.rmtree(cache)
    limits = copy / "worker/agent_builder/protocol/limits.py"
    source = limits.read_text()
    assert "DOCUMENT_CPU_S = 8" in source
    limits.write_text(source.replace("DOCUMENT_CPU_S = 8", "DOCUMENT_CPU_S = 1"))
    return copy


async def test_a_parser_that_takes_too_long_is_killed(document_run: ToolRun, monkeypatch: pytest.MonkeyPatch) -> None:
    before = children()
    released = asyncio.Event()
    real = document.run_handshake

    async def told_when_released(*arguments: object) -> CommandEnd:
        released.set()
        return await real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(document, "run_handshake", told_when_released)
    calling = asyncio.create_task(read(document_run, "a.pdf", made.endless_pdf()))
    await released.wait()
    while not calling.done():
        if "document" in str(busy_parsers()):
            document_run.clock.advance(DOCUMENT_WALL_S + 1)
        await asyncio.sleep(0.01)
    result = calling.result()
    assert (result.outcome, result.code, result.receipt["signal"]) == ("failed", "limit", 9)
    assert children() == before


def busy_parsers() -> list[str]:
    """Parsers that have begun with the document: they hold it open."""
    found = []
    for child in children():
        try:
            found += [os.readlink(f"/proc/{child}/fd/{name}") for name in os.listdir(f"/proc/{child}/fd")]
        except OSError:
            continue
    return [path for path in found if path.endswith(".document/document")]


async def test_however_often_a_reading_is_cancelled_its_process_and_copy_are_gone_first(document_run: ToolRun) -> None:
    before = children()
    put(document_run.workspace, "a.pdf", made.endless_pdf())
    calling = asyncio.create_task(document_run.call(TOOL, path="a.pdf"))
    while not busy_parsers():
        await asyncio.sleep(0.01)
    while not calling.done():
        calling.cancel()
        await asyncio.sleep(0)
    assert calling.cancelled()
    assert children() == before
    assert document_run.left_over() == []


async def test_a_full_disk_is_a_failure_that_says_so(document_run: ToolRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(document, "write_private", full)
    result = await read(document_run, "a.md", "x")
    assert told(result) == ("failed", "io_error", "the operating system refused: No space left on device")


async def test_parsers_of_all_agents_run_one_at_a_time(tmp_path: Path, worker_env: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turn, seen = asyncio.Lock(), most_at_once(monkeypatch, document, "run_handshake")
    runs = [make_run(tmp_path / str(number), worker_env, library) for number in range(3)]
    for run in runs:
        run.broker = CapabilityBroker(run.permissions, run.clock, worker_env, turn, lambda: library)
    results = await asyncio.gather(*(read(run, "a.md", "x") for run in runs))
    assert ([one.outcome for one in results], max(seen)) == (["ok"] * 3, 1)


async def test_without_its_environment_the_answer_says_how_to_get_it(run: ToolRun) -> None:
    result = await read(run, "a.md", "x")
    assert (result.outcome, result.code) == ("refused", "not_installed")
    assert "the operator can install it" in result.text


async def test_an_environment_that_does_not_load_is_said_to_be_the_fault(document_run: ToolRun, tmp_path: Path) -> None:
    (tmp_path / "packages").mkdir()
    document_run.library = (tmp_path / "packages").resolve()
    result = await read(document_run, "a.pdf", made.pdf("words"))
    assert (result.outcome, result.code) == ("failed", "library")
    assert "can remove it and install it again" in result.text


async def test_a_tool_for_text_names_the_one_for_documents_where_there_is_one(document_run: ToolRun, run: ToolRun) -> None:
    for one in (document_run, run):
        put(one.workspace, "a.pdf", made.encrypted(made.pdf("words"), "AES-256", ""))
        put(one.workspace, "a.bin", b"\0")
    read_it = "; document_extract_text reads it"
    assert [(await one.call("file/read_text", path=path)).text.endswith(read_it) for one in (document_run, run) for path in ("a.pdf", "a.bin")] == [
        True, False, False, False,
    ]


async def test_paths_are_refused_as_for_every_other_tool(document_run: ToolRun, tmp_path: Path) -> None:
    outside = put(tmp_path, "outside.md", "secret")
    put(document_run.workspace, "real.md", "x")
    (document_run.workspace / "link.md").symlink_to(outside)
    os.link(outside, document_run.workspace / "hard.md")
    put(document_run.workspace, "open.md", "x", 0o666)
    with open(put(document_run.workspace, "hole.md", ""), "r+b") as file:
        file.truncate(1 << 20)
    os.mkfifo(document_run.workspace / "pipe.md", 0o600)
    expected = {
        "link.md": "symlink", "hard.md": "links", "open.md": "mode", "hole.md": "sparse", "pipe.md": "not_regular", "../outside.md": "path",
        str(outside): "path", ".git/config": "git", "real.md/x": "not_directory", "none.md": "missing", ".": "path",
    }
    found = {path: (await document_run.call(TOOL, path=path)).code for path in expected}
    assert found == expected
    assert document_run.left_over() == []
