"""The page's files, straight from `web/`: named by a closed list of types, checked by ETag on each use."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agent_builder.gateway.csrf import header_values
from agent_builder.gateway.errors import MethodRefused, unknown_address
from agent_builder.protocol.limits import WEB_FILE_BYTES

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".webmanifest": "application/manifest+json",
    ".txt": "text/plain; charset=utf-8",
}
_PAGES = {"/": "index.html", "/login": "login.html"}
_NAME = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
_TESTS = "test/"


@dataclass(frozen=True, slots=True)
class _WebFile:
    stamp: tuple[int, int]
    etag: str
    kind: str
    content: bytes


class WebFiles:
    """The ASGI end of the router for everything that is not the interface. Files are kept in memory until they change."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[str, _WebFile] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        file = self._find(scope["path"])
        if file is None:
            raise unknown_address()
        if scope["method"] not in ("GET", "HEAD"):
            raise MethodRefused(["GET", "HEAD"])
        headers = {"ETag": file.etag, "Cache-Control": "no-cache"}
        if file.etag in header_values(scope["headers"], b"if-none-match"):
            await Response(status_code=304, headers=headers)(scope, receive, send)
            return
        headers["Content-Type"] = file.kind
        await Response(file.content, headers=headers)(scope, receive, send)

    def _find(self, path: str) -> _WebFile | None:
        name = _PAGES.get(path, path[1:])
        kind = _TYPES.get(Path(name).suffix)
        if kind is None or not _NAME.fullmatch(name) or name.startswith(_TESTS):
            return None
        try:
            return self._current(name, kind)
        except (FileNotFoundError, NotADirectoryError):
            self._files.pop(name, None)
            return None

    def _current(self, name: str, kind: str) -> _WebFile | None:
        path = self._root / name
        facts = path.stat()
        stamp = (facts.st_mtime_ns, facts.st_size)
        known = self._files.get(name)
        if known is not None and known.stamp == stamp:
            return known
        if not path.is_file() or facts.st_size > WEB_FILE_BYTES:
            return None
        content = path.read_bytes()
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        self._files[name] = _WebFile(stamp, etag, kind, content)
        return self._files[name]
