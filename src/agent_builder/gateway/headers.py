"""Security headers of every answer: nothing but this page's own files, no frames, no sniffing, no referrer."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

_EVERYWHERE = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_INTERFACE = [*_EVERYWHERE, (b"cache-control", b"no-store")]


class SecurityHeaders:
    """Adds them to whatever starts below it; answers of the interface are never stored."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        added = _INTERFACE if is_interface(scope["path"]) else _EVERYWHERE

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *added]
            await send(message)

        await self._app(scope, receive, with_headers)


def is_interface(path: str) -> bool:
    return path == "/api" or path.startswith("/api/") or path == "/health"
