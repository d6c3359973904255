"""The server's side of one HTTP connection: small answers leave at once, and a client that does not read can be dropped."""

import asyncio
import socket
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from agent_builder.gateway.errors import ABORT


class GatewayConnection(HttpToolsProtocol):
    """uvicorn's connection. Head and body of an answer, and each event, are small writes of their own, which the kernel would
    hold back for the client's acknowledgement (40 ms) without TCP_NODELAY. Each scope carries the transport's `abort`, which
    ASGI lacks."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        extensions: dict[str, Any] = {ABORT: self.transport.abort}
        self.scope["extensions"] = extensions
