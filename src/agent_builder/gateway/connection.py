"""The server's side of one HTTP connection, with the one thing ASGI lacks: dropping a client that does not read."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from agent_builder.gateway.errors import ABORT


class GatewayConnection(HttpToolsProtocol):
    """uvicorn's connection; each scope carries the transport's `abort` as an extension."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        extensions: dict[str, Any] = {ABORT: self.transport.abort}
        self.scope["extensions"] = extensions
