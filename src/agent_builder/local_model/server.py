"""The loopback HTTP server: Ollama's endpoints over one Engine.

Nobody reaches it without the random key, through another Host than loopback, or from a web page (any Origin is refused).
Source of statuses and texts: recorded answers of a real Ollama server.
"""

import hmac
import json
import select
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agent_builder.local_model import bounds, ollama_shapes
from agent_builder.local_model.chat import answer_chat
from agent_builder.local_model.engine import ClientGone, Engine
from agent_builder.local_model.ollama_shapes import Model
from agent_builder.local_model.requests import OllamaError, parse_chat

JSON_TYPE, TEXT_TYPE, FRAMES_TYPE = "application/json; charset=utf-8", "text/plain; charset=utf-8", "application/x-ndjson"
GONE_ERRORS = (ClientGone, ConnectionError, TimeoutError)


class ModelServer(ThreadingHTTPServer):
    """`port` 0 takes a free one; `server_port` tells which."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, key: str, models: list[Model]) -> None:
        super().__init__(("127.0.0.1", port), _Exchange)
        self.key = key
        self.models = {model.name: model for model in models}
        self.engine = Engine()
        self._connections = threading.BoundedSemaphore(bounds.CONNECTIONS)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        if not self._connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        print(f"request failed: {type(sys.exception()).__name__}", file=sys.stderr, flush=True)

    def find(self, name: str) -> Model:
        """`:latest` is implied, as in Ollama. Raises OllamaError (404)."""
        model = self.models.get(name) or self.models.get(f"{name}:latest")
        if model is None:
            raise OllamaError(404, f"model '{name}' not found")
        return model


class _Exchange(BaseHTTPRequestHandler):
    server: ModelServer
    protocol_version = "HTTP/1.1"
    timeout = bounds.SOCKET_S
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if not self._admitted():
            return
        engine = self.server.engine
        if self.path == "/":
            self.send(200, "Ollama is running", TEXT_TYPE)
        elif self.path == "/api/version":
            self.send(200, ollama_shapes.encode({"version": ollama_shapes.VERSION}))
        elif self.path == "/api/tags":
            self.send(200, ollama_shapes.encode(ollama_shapes.tags(list(self.server.models.values()))))
        elif self.path == "/api/ps":
            self.send(200, ollama_shapes.encode(ollama_shapes.ps(engine.model, engine.window, engine.expires_ns)))
        else:
            self.send(404, "404 page not found", "text/plain")

    do_HEAD = do_GET  # noqa: N815 — the base class looks for this name

    def do_POST(self) -> None:
        if not self._admitted():
            return
        routes = {"/api/chat": self._chat, "/api/show": self._show}
        started, status, usage = time.monotonic(), 200, {}
        try:
            raw = self._body()
            if self.path not in routes:
                self.send(404, "404 page not found", "text/plain")
                return
            usage = routes[self.path](_parsed(raw))
        except OllamaError as error:
            status = error.status
            self.send(error.status, ollama_shapes.error(error.text))
        except GONE_ERRORS:
            status = 499
            self.close_connection = True
        numbers = " ".join(f"{name}={value}" for name, value in usage.items())
        print(f"POST {self.path} {status} {time.monotonic() - started:.3f}s {numbers}", file=sys.stderr, flush=True)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 — the base class names it
        """Requests are logged by do_POST, with numbers only."""

    def _show(self, body: dict[str, Any]) -> dict[str, int]:
        name = body.get("model") or body.get("name")
        if not name or not isinstance(name, str):
            raise OllamaError(400, "model is required")
        model = self.server.find(name)
        self.send(200, ollama_shapes.encode(ollama_shapes.show(model, body.get("verbose") is True)))
        return {}

    def _chat(self, body: dict[str, Any]) -> dict[str, int]:
        request = parse_chat(body)
        if not request.model:
            raise OllamaError(400, "model is required")
        model = self.server.find(request.model)
        reply = _Stream(self) if request.stream and request.messages else _Whole(self)
        try:
            usage = answer_chat(self.server.engine, model, request, reply.put, self._gone)
        except OllamaError as error:
            if not reply.begun:
                raise
            reply.put({"error": error.text})
            usage = {}
        reply.end()
        return usage

    def _admitted(self) -> bool:
        port = self.server.server_port
        if "Origin" in self.headers or self.headers.get("Host") not in (f"127.0.0.1:{port}", f"localhost:{port}"):
            self._refuse(403, "")
            return False
        given = self.headers.get("Authorization", "").encode("utf-8", "replace")
        if not hmac.compare_digest(given, f"Bearer {self.server.key}".encode()):
            self._refuse(401, ollama_shapes.error("unauthorized"))
            return False
        return True

    def _refuse(self, status: int, text: str) -> None:
        self.close_connection = True  # the body, if any, is not read
        self.send(status, text)

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not length.isdecimal() or int(length) > bounds.REQUEST_BYTES:
            self.close_connection = True
            raise OllamaError(400, "request body too large or of unknown length")
        return self.rfile.read(int(length))

    def send(self, status: int, text: str, content_type: str = JSON_TYPE) -> None:
        data = text.encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _gone(self) -> bool:
        """True when the client has closed its side: the one way to cancel a request."""
        try:
            readable, _, _ = select.select([self.connection], [], [], 0)
            return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True


class _Stream:
    """Frames as NDJSON lines; the header goes out with the first one, so an earlier error still gets its own status."""

    def __init__(self, exchange: _Exchange) -> None:
        self.exchange = exchange
        self.begun = False

    def put(self, value: dict[str, Any]) -> None:
        if not self.begun:
            self.begun = True
            self.exchange.send_response(200)
            self.exchange.send_header("Content-Type", FRAMES_TYPE)
            self.exchange.send_header("Transfer-Encoding", "chunked")
            self.exchange.end_headers()
        line = ollama_shapes.encode(value).encode("utf-8", "replace") + b"\n"
        self.exchange.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))

    def end(self) -> None:
        self.exchange.wfile.write(b"0\r\n\r\n")


class _Whole:
    """All frames merged into one JSON object (`stream: false`, load and unload)."""

    begun = False

    def __init__(self, exchange: _Exchange) -> None:
        self.exchange = exchange
        self.content, self.thinking = "", ""
        self.calls: list[Any] = []
        self.last: dict[str, Any] = {}

    def put(self, value: dict[str, Any]) -> None:
        message = value["message"]
        self.content += message["content"]
        self.thinking += message.get("thinking", "")
        self.calls += message.get("tool_calls", [])
        self.last = value

    def end(self) -> None:
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.thinking:
            message["thinking"] = self.thinking
        if self.calls:
            message["tool_calls"] = self.calls
        self.exchange.send(200, ollama_shapes.encode({**self.last, "message": message}))


def _parsed(raw: bytes) -> dict[str, Any]:
    if not raw:
        raise OllamaError(400, "missing request body")
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        at_end = isinstance(error, json.JSONDecodeError) and error.pos >= len(error.doc.rstrip())
        raise OllamaError(400, "unexpected EOF" if at_end else "invalid character in the request body") from error
    if not isinstance(body, dict):
        raise OllamaError(400, "json: cannot unmarshal value into Go value of type api.ChatRequest")
    return body
