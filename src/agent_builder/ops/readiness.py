"""Readiness: the supervisor's reports and the Gateway's /health, until it is ready or has failed."""

import json
import os
import select
import socket
import time
from collections.abc import Callable
from typing import IO, Any

from agent_builder.ops.outcome import Refused
from agent_builder.protocol.limits import (
    HEALTH_BYTES,
    HEALTH_LOOK_S,
    LOADING_LOOK_S,
    LOADING_S,
    LOADING_TOLD_S,
    LOG_BATCH_BYTES,
    PORT_OPEN_S,
)

LOADING = "loading"


class Reports:
    """The supervisor's JSON lines."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._descriptor = pipe.fileno()
        self._pipe = pipe  # kept, so that it stays open
        self._rest = b""
        self._seen: list[dict[str, Any]] = []

    def expect(self, event: str) -> None:
        """Waits for an event. Raises Refused when the supervisor reports a failure or ends, or after a bounded time."""
        until = time.monotonic() + PORT_OPEN_S
        while not any(each["event"] == event for each in self._seen):
            if time.monotonic() >= until:
                raise Refused(f"the supervisor did not report {event}")
            self.look(PORT_OPEN_S)

    def look(self, seconds: float) -> None:
        """Waits that long for a report; a failure is raised as Refused."""
        readable, _, _ = select.select([self._descriptor], [], [], seconds)
        if not readable:
            return
        data = os.read(self._descriptor, LOG_BATCH_BYTES)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._seen += [json.loads(line) for line in lines]
        for each in self._seen:
            if each["event"] == "failed":
                raise Refused(each["message"])
        if not data:
            raise Refused("it was stopped while it started; .runtime/control-plane/ holds the logs")


def await_ready(reports: Reports, host: str, port: int, announce: Callable[[], None]) -> str:
    """Returns the status, `ready` or `degraded`; calls `announce` as soon as the port answers. Raises Refused."""
    begun = told = time.monotonic()
    announced = False
    while True:
        status = health(host, port)
        if status is not None and not announced:
            announced = True
            announce()
        if status is not None and status != LOADING:
            return status
        now = time.monotonic()
        if now - begun > (LOADING_S if announced else PORT_OPEN_S):
            raise Refused("the model did not load in time" if announced else "the Gateway did not open its port in time")
        if announced and now - told > LOADING_TOLD_S:
            told = now
            print(f"agent-builder: the model is loading, {now - begun:.0f} s so far", flush=True)
        reports.look(LOADING_LOOK_S if announced else HEALTH_LOOK_S)


def health(host: str, port: int) -> str | None:
    """The `status` of GET /health; None while nobody answers."""
    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    name = f"[{target}]" if ":" in target else target
    try:
        with socket.create_connection((target, port), timeout=LOADING_LOOK_S * 10) as connection:
            connection.sendall(f"GET /health HTTP/1.1\r\nHost: {name}:{port}\r\nConnection: close\r\n\r\n".encode())
            answer = b""
            while len(answer) < HEALTH_BYTES and (data := connection.recv(HEALTH_BYTES)):
                answer += data
        return str(json.loads(answer.partition(b"\r\n\r\n")[2])["status"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
