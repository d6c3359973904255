"""Figures with the embedded model: first word, Turn after Turn, and what the warm-up saves. A relay between the Gateway and the
model server notes every request and final frame.
"""

import asyncio
import itertools
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path

from bench_client import Json, Pieces, Wire, blocks, events
from bench_gateway import Gateway, make_checkout
from bench_report import Row

from tests.support.embedded_model import embedded_server

QUESTIONS = (
    "Hello! How are you today?", "What is the capital of France?", "Say in one sentence why the sky looks blue.",
    "Write one friendly sentence for a birthday card.", "What is 12 * 12?", "Thank you, that is all for today. Goodbye!",
)
WANTED = 3  # Turns after the first that the model answers without calling a tool
SECONDS_PER_NS = 1e-9
READ = re.compile(r"POST /api/chat 200 .*prompt_eval_count=(\d+) .*prompt_read=(\d+)")
ANSWER_S = 300


class Relay:
    """Passes bytes on in both directions. `calls`: bodies of chats with messages, and their answers as pieces with times."""

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.calls: list[tuple[bytes, Pieces]] = []

    async def __aenter__(self) -> "Relay":
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).replace(b":%d\r\n" % self.port, b":%d\r\n" % self.upstream)
            length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
            body = await reader.readexactly(int(length[1]) if length else 0)
            pieces: Pieces = []
            if b" /api/chat " in head and json.loads(body)["messages"]:
                self.calls.append((head + body, pieces))
            answer, request = await asyncio.open_connection("127.0.0.1", self.upstream)
            request.write(head + body)
            while data := await answer.read(1 << 16):
                pieces.append((time.monotonic(), data))
                writer.write(data)
            request.close()
        finally:
            writer.close()


def final(pieces: Pieces) -> Json:
    return dict(json.loads([line for _, line in blocks(pieces, b"\n") if line][-1]))


async def rows(scratch: Path, mode: str) -> list[Row]:
    scratch = scratch.resolve()
    (scratch / "served").mkdir()
    with embedded_server(scratch / "served", mode) as server:
        async with Relay(server.port) as relay:
            root = scratch / "checkout"
            text = server.catalog.read_text().replace(f":{server.port}", f":{relay.port}")
            key = re.search(r'api_key_file = "(.*)"', text)
            assert key is not None
            make_checkout(root, text)
            (root / key[1]).parent.mkdir(parents=True, mode=0o700, exist_ok=True)
            (root / key[1]).write_text(server.key)
            (root / key[1]).chmod(0o600)
            began = time.monotonic()
            async with Gateway(root, 0) as gateway:
                ready_s = time.monotonic() - began
                turns = await _turns(gateway, relay, server.log)
    (scratch / "cold").mkdir()
    with embedded_server(scratch / "cold", mode) as server:
        cold_s, cold = await _cold(server.port, server.key, turns[0].request)
    return _rows(mode, turns, ready_s, cold_s, cold)


@dataclass(frozen=True, slots=True)
class Turn:
    """One that was answered by one call. `request`: its bytes; `end`: the final frame; `read`: prompt tokens that the server
    had not kept, by its own count."""

    first_s: float
    request: bytes
    end: Json
    read: int


async def _turns(gateway: Gateway, relay: Relay, log: Path) -> list[Turn]:
    """A small model may take to its tools on any question: such Turns are left out."""
    place = await gateway.new_conversation()
    made: list[Turn] = []
    for question in QUESTIONS:
        before = len(relay.calls)
        sent, _, _, follower = await gateway.begin(gateway.agent, place, question)
        await follower.whole_stream(ANSWER_S)
        found = events(follower.pieces)
        follower.close()
        texts = [(at, event["payload"]["text"]) for at, event in found if event.get("type") == "assistant.block.delta"]
        await gateway.ready()
        if found[-1][1]["type"] == "run.completed" and len(relay.calls) == before + 1:
            request, pieces = relay.calls[-1]
            made.append(Turn(texts[0][0] - sent, request, final(pieces), int(READ.findall(log.read_text())[-1][1])))
    if len(made) <= WANTED:
        raise RuntimeError("the model answered too few of the questions in plain words")
    return made


async def _cold(port: int, key: str, call: bytes) -> tuple[float, Json]:
    """The first Turn's request to a server that has loaded the model and read nothing."""
    body = json.loads(call.partition(b"\r\n\r\n")[2])
    for messages in ([], body["messages"]):
        wire = await Wire.open(port)
        data = json.dumps({**body, "messages": messages}).encode()
        head = f"POST /api/chat HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        sent = wire.send(f"{head}Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data)
        await wire.whole_stream(ANSWER_S)
        lines = [(at, json.loads(line)) for at, line in blocks(wire.pieces, b"\n") if line]
        wire.close()
    return next(at for at, line in lines if line["message"]["content"]) - sent, lines[-1][1]


def _rows(mode: str, turns: list[Turn], ready_s: float, cold_s: float, cold: Json) -> list[Row]:
    added = [after.end["prompt_eval_count"] - before.end["prompt_eval_count"] for before, after in itertools.pairwise(turns)]
    later = turns[1:]
    name = f"embedded model ({mode})"
    return [
        Row(f"{name}: first Turn after start, time to the first word", "s", [turns[0].first_s], 3),
        Row(f"{name}: Turn N+1, time to the first word", "s", [turn.first_s for turn in later], 1.5),
        Row(f"{name}: prompt tokens evaluated on Turn N+1 / added since Turn N", "", [one.read / more for one, more in zip(later, added, strict=True)], 1.3),
        Row(f"{name}: prompt tokens evaluated on Turn N+1", "tokens", [float(turn.read) for turn in later]),
        Row(f"{name}: tokens added since Turn N", "tokens", [float(more) for more in added]),
        Row(f"{name}: prompt tokens evaluated on the first Turn, of {turns[0].end['prompt_eval_count']}", "tokens", [float(turns[0].read)]),
        Row(f"{name}: the first Turn's request without the warm-up, model loaded", "s", [cold_s]),
        Row(f"{name}: start to ready, load and warm-up included", "s", [ready_s]),
        Row(f"{name}: speed of reading a prompt", "tokens/s", [cold["prompt_eval_count"] / (cold["prompt_eval_duration"] * SECONDS_PER_NS)]),
        Row(f"{name}: speed of writing", "tokens/s", [turn.end["eval_count"] / (turn.end["eval_duration"] * SECONDS_PER_NS) for turn in turns]),
    ]
