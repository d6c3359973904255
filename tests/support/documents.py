"""Documents made for tests, byte for byte where it matters, and a research environment to read them with."""

import importlib
import io
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_builder.capsule import research_probe
from tests.support.gateway import PROJECT
from tests.support.research import PACKAGE_ENVIRONMENT

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
BODY = f'<?xml version="1.0"?><w:document xmlns:w="{WORD}"><w:body>%s</w:body></w:document>'
MAIN = "word/document.xml"
SHORT = "<w:p><w:r><w:t>AAAA</w:t></w:r></w:p>"


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of config/research-documents.txt, compiled as an installation leaves them; this process can import them too."""
    target = tmp_path_factory.mktemp("library").resolve() / "packages"
    cache = PROJECT / ".runtime/cache/uv"
    subprocess.run(
        [PROJECT / ".tools/uv/bin/uv", "pip", "install", "--quiet", "--only-binary", ":all:", "--no-deps", "--require-hashes", "--link-mode", "copy",
         "--python", sys.executable, "--target", target, "-r", PROJECT / "config/research-documents.txt"],
        check=True, env={**PACKAGE_ENVIRONMENT, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path_factory.getbasetemp()), "UV_CACHE_DIR": str(cache), "UV_NO_CONFIG": "1", "UV_SYSTEM_CERTS": "true"},
    )
    subprocess.run([sys.executable, "-I", "-S", "-B", research_probe.__file__, target], check=True, stdout=subprocess.DEVNULL)
    sys.path.append(str(target))
    return target


# PDF -------------------------------------------------------------------------------------------------------------


def pdf_of(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """A file of numbered objects, the first of them the catalog."""
    body, places = b"%PDF-1.7\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    start = len(body)
    return body + b"xref\n0 %d\n0000000000 65535 f \n%strailer << /Size %d /Root 1 0 R %s>>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1, table, len(objects) + 1, trailer, start,
    )


def stream(content: bytes, extra: bytes = b"") -> bytes:
    return b"<< /Length %d %s>>\nstream\n%s\nendstream" % (len(content), extra, content)


HELVETICA = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"


def pdf(*pages: str, font: bytes = HELVETICA) -> bytes:
    """One page of text each, its lines below each other; an empty one has none."""
    contents = [b"".join(b"(%s) Tj 0 -14 Td " % line.encode("latin-1") for line in page.split("\n")) if page else b"" for page in pages]
    return pdf_with([b"BT /F1 12 Tf 72 720 Td %sET" % content if content else b"q Q" for content in contents], font)


def pdf_with(contents: Sequence[bytes], font: bytes = HELVETICA, more: Sequence[bytes] = (), extra: bytes = b"") -> bytes:
    """Pages with these content streams; `more` objects follow the pages."""
    kids = b" ".join(b"%d 0 R" % (4 + 2 * number) for number in range(len(contents)))
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(contents), kids), font]
    for number, content in enumerate(contents):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R /Resources << /Font << /F1 3 0 R >> %s>> >>" % (5 + 2 * number, extra)
        )
        objects.append(content if content.startswith(b"<<") else stream(content))
    return pdf_of([*objects, *more])


def chinese_pdf(text: str) -> bytes:
    """A font whose codes mean nothing without its /ToUnicode table."""
    table = b"".join(b"<%04x> <%s>\n" % (code, character.encode("utf-16-be").hex().encode()) for code, character in enumerate(text, 1))
    cmap = b"/CIDInit /ProcSet findresource begin\nbegincmap\n1 begincodespacerange\n<0000> <ffff>\nendcodespacerange\n%d beginbfchar\n%sendbfchar\nendcmap\nend" % (len(text), table)
    font = (
        b"<< /Type /Font /Subtype /Type0 /BaseFont /Song /Encoding /Identity-H /ToUnicode 6 0 R /DescendantFonts [<< /Type /Font /Subtype /CIDFontType2 "
        b"/BaseFont /Song /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>] >>"
    )
    codes = b"".join(b"%04x" % code for code in range(1, len(text) + 1))
    return pdf_with([b"BT /F1 12 Tf 72 720 Td <%s> Tj ET" % codes], font, [stream(cmap)])


def endless_pdf(depth: int = 30) -> bytes:
    """Each form draws the next one twice: 2 to the power of `depth` pieces of text."""
    forms = [
        stream(b"/X Do /X Do", b"/Type /XObject /Subtype /Form /Resources << /XObject << /X %d 0 R >> >> " % (7 + number)) for number in range(depth)
    ]
    last = stream(b"BT /F1 9 Tf (x) Tj ET", b"/Type /XObject /Subtype /Form /Resources << /Font << /F1 3 0 R >> >> ")
    return pdf_with([b"/X Do"], HELVETICA, [*forms, last], b"/XObject << /X 6 0 R >> ")


def packed_bomb() -> bytes:
    """A page that expands to 130 MB, packed twice."""
    content = zlib.compress(zlib.compress(b" " * 130_000_000, 9), 9)
    return pdf_with([stream(content, b"/Filter [/FlateDecode /FlateDecode] ")])


def encrypted(document: bytes, algorithm: str, password: str) -> bytes:
    """Needs `library`."""
    pypdf = importlib.import_module("pypdf")
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(document))
    writer.encrypt(user_password=password, owner_password="owner", algorithm=algorithm)
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


# DOCX ------------------------------------------------------------------------------------------------------------


def new_docx() -> Any:
    """python-docx's own empty document. Needs `library`."""
    return importlib.import_module("docx").Document()


def saved(document: Any) -> bytes:
    made = io.BytesIO()
    document.save(made)
    return made.getvalue()


def docx_with(body: str, more: Mapping[str, bytes] | None = None) -> bytes:
    """A DOCX whose body is this XML. Needs `library`."""
    return packed({**unpacked(saved(new_docx())), MAIN: (BODY % body).encode(), **(more or {})})


def unpacked(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def packed(entries: Mapping[str, bytes] | Sequence[tuple[str | zipfile.ZipInfo, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, content in entries.items() if isinstance(entries, Mapping) else entries:
            archive.writestr(name, content, method)
    return made.getvalue()
