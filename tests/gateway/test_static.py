from pathlib import Path

import pytest

from agent_builder.gateway.errors import MethodRefused
from agent_builder.gateway.static import WebFiles
from agent_builder.protocol.errors import NotFound
from agent_builder.protocol.limits import WEB_FILE_BYTES
from tests.gateway.asgi_client import AsgiClient


@pytest.fixture
def web(tmp_path: Path) -> Path:
    root = tmp_path / "web"
    for name, text in {
        "index.html": "<p>index", "login.html": "<p>login", "css/a.css": "p{}", "js/state/x.js": "export {}", "test/x.js": "secret",
        "icon.svg": "<svg/>", ".hidden.js": "secret", "js/.git/a.js": "secret", "notes.md": "secret", "empty.js": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (tmp_path / "outside.js").write_text("secret")
    (root / "folder.js").mkdir()
    return root


async def get(files: WebFiles, path: str, method: str = "GET", *headers: tuple[bytes, bytes]) -> AsgiClient:
    client = AsgiClient()
    await files(client.scope(method, path, list(headers)), client.receive, client.send)
    return client


@pytest.mark.parametrize(("path", "body", "kind"), [
    ("/", b"<p>index", b"text/html; charset=utf-8"),
    ("/index.html", b"<p>index", b"text/html; charset=utf-8"),
    ("/login", b"<p>login", b"text/html; charset=utf-8"),
    ("/css/a.css", b"p{}", b"text/css; charset=utf-8"),
    ("/js/state/x.js", b"export {}", b"text/javascript; charset=utf-8"),
    ("/icon.svg", b"<svg/>", b"image/svg+xml"),
    ("/empty.js", b"", b"text/javascript; charset=utf-8"),
])
async def test_files_have_their_type_and_are_asked_for_again_each_time(web: Path, path: str, body: bytes, kind: bytes) -> None:
    client = await get(WebFiles(web), path)
    headers = dict(client.headers)
    assert (client.status, client.received, headers[b"content-type"], headers[b"cache-control"]) == (200, body, kind, b"no-cache")


@pytest.mark.parametrize("path", [
    "/test/x.js", "/.hidden.js", "/js/.git/a.js", "/notes.md", "/../outside.js", "/js/../../outside.js", "//index.html", "/js//state/x.js",
    "/js", "/js/", "/folder.js", "/missing.js", "/index.html/x.js", "/js\\state\\x.js", "/index.html\x00.js", "/%2e%2e/outside.js", "/...js",
    "/js/./state/x.js", "/login.html/", "",
])
async def test_nothing_else_is_served(web: Path, path: str) -> None:
    with pytest.raises(NotFound):
        await get(WebFiles(web), path)


async def test_a_changed_file_is_served_anew_and_an_unchanged_one_is_not_sent_twice(web: Path) -> None:
    files = WebFiles(web)
    first = dict((await get(files, "/css/a.css")).headers)[b"etag"]
    again = await get(files, "/css/a.css", "GET", (b"if-none-match", first))
    assert (again.status, again.received) == (304, b"")
    (web / "css/a.css").write_text("p{color:red}")
    changed = await get(files, "/css/a.css", "GET", (b"if-none-match", first))
    assert (changed.status, changed.received) == (200, b"p{color:red}")
    (web / "css/a.css").unlink()
    with pytest.raises(NotFound):
        await get(files, "/css/a.css")


async def test_a_file_over_the_bound_is_not_served(web: Path) -> None:
    (web / "large.js").write_bytes(b"x" * WEB_FILE_BYTES)
    assert (await get(WebFiles(web), "/large.js")).status == 200
    (web / "large.js").write_bytes(b"x" * (WEB_FILE_BYTES + 1))
    with pytest.raises(NotFound):
        await get(WebFiles(web), "/large.js")


async def test_files_can_only_be_read(web: Path) -> None:
    with pytest.raises(MethodRefused):
        await get(WebFiles(web), "/index.html", "POST")
