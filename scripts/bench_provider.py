"""The scripted provider of the benchmark: Ollama's wire in a process of its own, so that it takes no time from who is measured.

    python scripts/bench_provider.py [--vocabulary]        prints its port on the first line, ends with its stdin

What to answer stands in the last user message: `bench:{"id": …, "frames": n, "gap": s, "tools": n, "hold": bool}`. First `tools`
calls of file_read_text, one per request, then `frames` frames `w0000 `, `gap` seconds apart. With `hold` the answer never ends.
GET /bench/<id> tells the exchanges of that id, times by time.monotonic, which all processes of a machine share.
"""

import asyncio
import json
import re
import string
import sys
import time
from typing import Any

Json = dict[str, Any]
MODEL = "bench:1b"
ASKED = re.compile(r"bench:(\{.*?\})")
VERSION = "0.30.1"  # a series whose prompt counts the Gateway does not hold against its own, since here they are made up
TOKENS, MERGES = 151_936, 151_387  # of the Qwen family


def vocabulary() -> Json:
    """A made vocabulary of the size and token length of a real one: all pairs and triples of letters, and pairs of triples."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = [chr(code) for code in printable] + [chr(256 + spare) for spare in range(256 - len(printable))]
    letters = string.ascii_lowercase
    pairs = [(one, two) for one in letters for two in letters]
    triples = [(one + two, three) for one, two in pairs for three in letters]
    ends = [one + two for one, two in triples]
    longer = [(one, two) for one in ends[:: len(ends) // 200] for two in ends[:: len(ends) // 800]]
    merges = [*pairs, *triples, *longer][:MERGES]
    tokens = [*alphabet, *(one + two for one, two in merges)]
    extra = [f"<|extra_{number}|>" for number in range(TOKENS - len(tokens))]
    return {
        "tokenizer.ggml.tokens": [*tokens, *extra], "tokenizer.ggml.merges": [" ".join(pair) for pair in merges],
        "tokenizer.ggml.token_type": [1] * len(tokens) + [3] * len(extra),
    }


class Provider:
    """What all connections share. `log`: exchanges by id."""

    def __init__(self, with_vocabulary: bool) -> None:
        self.log: dict[str, list[Json]] = {}
        self.arrays = vocabulary() if with_vocabulary else {}
        info: Json = {"general.architecture": "bench", "bench.context_length": 32768}
        if with_vocabulary:
            info |= {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2", **dict.fromkeys(self.arrays)}
        self.show: Json = {"template": "", "details": {}, "model_info": info, "capabilities": ["completion", "tools"]}

    def answer(self, path: str, body: Json) -> Json:
        listed = {"name": MODEL, "model": MODEL, "digest": "ab" * 32, "details": {}, "context_length": 32768}
        if path == "/api/show":
            more = self.arrays if body.get("verbose") else {}
            return {**self.show, "model_info": {**self.show["model_info"], **more}}
        if path.startswith("/bench/"):
            return {"exchanges": self.log.get(path.removeprefix("/bench/"), [])}
        return {"version": VERSION} if path == "/api/version" else {"models": [listed]}


class Connection(asyncio.Protocol):
    """One exchange. asyncio sets TCP_NODELAY and writes at once, so a time taken before `write` is the time it leaves."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.data = b""
        self.task: asyncio.Task[None] | None = None
        self.exchange: Json = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        self.data += data
        head, end, body = self.data.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        if end and self.task is None and len(body) >= (int(length[1]) if length else 0):
            self.exchange = {"received": now, "bytes": len(body), "writes": [], "closed": None}
            self.task = asyncio.create_task(self.serve(head.split(b" ")[1].decode(), json.loads(body or b"{}")))

    def connection_lost(self, exc: Exception | None) -> None:
        self.exchange["closed"] = time.monotonic()
        if self.task is not None:
            self.task.cancel()

    async def serve(self, path: str, body: Json) -> None:
        if path != "/api/chat":
            data = json.dumps(self.provider.answer(path, body)).encode()
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(data), data))
        else:
            await self.chat(body)
        self.transport.close()

    async def chat(self, body: Json) -> None:
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")
        messages = body.get("messages", [])
        if not messages or body["options"].get("num_predict") == 1:
            self.put({**_frame("x" if messages else ""), **_end("length" if messages else "load")})
        else:
            await self.play(messages)
        self.transport.write(b"0\r\n\r\n")

    async def play(self, messages: list[Json]) -> None:
        asked = _asked(messages)
        self.provider.log.setdefault(asked.get("id", ""), []).append(self.exchange)
        made = sum(message["role"] == "tool" for message in messages)
        if made < asked.get("tools", 0):
            function = {"name": "file_read_text", "arguments": {"path": f"notes-{made}.md"}}
            self.put(_frame(tool_calls=[{"id": f"c{made}", "function": function}]))
        else:
            for number in range(asked.get("frames", 1)):
                if number and asked.get("gap"):
                    await asyncio.sleep(asked["gap"])
                self.put(_frame(f"w{number:04d} "))
            if asked.get("hold"):
                await asyncio.sleep(3600)
        self.put({**_frame(), **_end("stop")})

    def put(self, value: Json) -> None:
        data = json.dumps(value, separators=(",", ":")).encode() + b"\n"
        data = b"%x\r\n%b\r\n" % (len(data), data)
        self.exchange["writes"].append(time.monotonic())
        self.transport.write(data)


def _asked(messages: list[Json]) -> Json:
    last = next(message["content"] for message in reversed(messages) if message["role"] == "user")
    found = ASKED.search(last)
    return json.loads(found[1]) if found else {"id": "plain", "frames": 1}


def _frame(content: str = "", **more: Any) -> Json:
    return {"model": MODEL, "created_at": "2026-11-30T00:00:00Z", "message": {"role": "assistant", "content": content, **more}, "done": False}


def _end(reason: str) -> Json:
    return {"done": True, "done_reason": reason, "prompt_eval_count": 900, "prompt_eval_duration": 10**7, "eval_count": 9, "eval_duration": 10**7}


async def main() -> None:
    provider = Provider("--vocabulary" in sys.argv)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(provider), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
