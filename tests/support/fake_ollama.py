"""A scripted Ollama: the real wire format over real HTTP, in a thread of the test's own process.

    with FakeOllama() as fake:
        fake.script(call("file_read_text", path="a.txt"), text("done"))
        ...                                   # point a catalog at fake.url (fake.port)
        fake.chats[0]["messages"]             # bodies of the chat requests that took a step, in order
        await fake.asked(2)                   # returns when two chats have arrived
        await fake.closed(1)                  # ... when a client has gone away before its answer was complete

One step answers one POST /api/chat. With no step left it answers text("ok"). Four kinds of request take no step and are
kept apart: loads (no messages) in `loads`, warm-ups (num_predict 1) in `warm_ups`, summaries (no tools, "summar" in a
system message) in `summaries` (answered by `summary`), everything else than chat in `questions` as (method, path).
`headers` holds the headers of the last request.

Steps: text thinking call calls frames raw status replay hang gated prefill. All may be changed while the server runs:
`show` (answer of /api/show; `vocabulary` adds the arrays that verbose asks for), `digest`, `version`, `loaded`,
`load_s` or `load_gate` (how long a load takes), `load_step`, `allocated` (window told by /api/ps), `missing` (paths answered 404), `key` (bearer token wanted),
`one_slot` (chats are answered one after the other). `add_model` adds further models beside the first one.

A Gate holds a step until the test opens it; gates are safe to open from any thread.
"""

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).resolve().parents[1] / "data/ollama"
Json = dict[str, Any]
Step = Callable[["Answer", Json], Awaitable[None]]
Last = Callable[[Json], Json]
WAIT_S = 20


class Gone(Exception):
    """The client has closed the connection."""


class Gate:
    """Closed until `open` is called."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def open(self) -> None:
        self._open.set()
        for loop, event in self._loops:
            loop.call_soon_threadsafe(event.set)

    async def wait(self) -> None:
        event = asyncio.Event()
        self._loops.append((asyncio.get_running_loop(), event))
        if not self._open.is_set():
            await event.wait()


@dataclass
class FakeModel:
    """What /api/show and /api/tags say of one model. `vocabulary`: keys tokenizer.ggml.* with their arrays. `num_ctx`: of
    the last request."""

    name: str
    show: Json
    digest: str
    vocabulary: Json | None = None
    loaded: bool = True
    num_ctx: int = 0


@dataclass
class Closed:
    """A client that went away before its answer was complete: the request it had sent, and the time (time.monotonic)."""

    path: str
    body: Json
    at: float


# frames ------------------------------------------------------------------------------------------------------------


def frame(**message: Any) -> Json:
    """A frame of an answer: content, thinking, tool_calls; `model` and `done` are filled in."""
    return {"model": "m", "created_at": "2026-11-30T00:00:00.1Z", "message": {"role": "assistant", "content": "", **message}, "done": False}


def last(reason: str | None = "stop", prompt: int | None = None, output: int | None = 5, **more: Any) -> Last:
    """The final frame. `prompt`: prompt_eval_count, by default a quarter of the messages' JSON. `more`: further keys, or
    other values; None leaves a key out."""

    def make(body: Json) -> Json:
        size = max(1, len(json.dumps(body.get("messages", []), ensure_ascii=False)) // 4)
        made = {
            **frame(), "done": True, "done_reason": reason, "total_duration": 10**8, "load_duration": 10**6,
            "prompt_eval_count": size if prompt is None else prompt, "prompt_eval_duration": 10**7,
            "eval_count": output, "eval_duration": 10**7, **more,
        }
        return {key: value for key, value in made.items() if value is not None}

    return make


def line(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


# steps -------------------------------------------------------------------------------------------------------------


def frames(*values: Json, gap: float = 0.0, end: Last | None = None) -> Step:
    """Any frames, each written by itself, `gap` seconds apart, then the final one."""

    async def play(answer: "Answer", body: Json) -> None:
        for value in values:
            await answer.write(line(value))
            if gap:
                await asyncio.sleep(gap)
        await answer.write(line((end or last())(body)))

    return play


def text(content: str, size: int = 6, gap: float = 0.0, end: Last | None = None) -> Step:
    """An answer in pieces of `size` characters."""
    return frames(*(frame(content=content[at : at + size]) for at in range(0, len(content), size)), gap=gap, end=end)


def thinking(thought: str, content: str = "", end: Last | None = None) -> Step:
    return frames(frame(thinking=thought), *([frame(content=content)] if content else []), end=end)


def call(_name: str, _id: str | None = "call_0001", _raw: Any = None, **arguments: Any) -> Step:
    """One tool call; `_raw` instead of keyword arguments sends any value as its arguments."""
    return calls((_name, arguments if _raw is None else _raw), ids=[_id])


def calls(*pairs: tuple[str, Any], ids: list[str | None] | None = None, content: str = "", together: bool = False, in_done: bool = False) -> Step:
    """Several calls, one frame each, or `together` in one frame, or (`in_done`) in the final frame."""
    made = []
    for index, (name, arguments) in enumerate(pairs):
        one: Json = {"function": {"index": index, "name": name, "arguments": arguments}}
        one_id = ids[index] if ids else f"call_{index}"
        made.append(one if one_id is None else {"id": one_id, **one})
    if in_done:
        return frames(end=lambda body: {**last()(body), "message": {"role": "assistant", "content": content, "tool_calls": made}})
    if together:
        return frames(frame(content=content, tool_calls=made))
    return frames(*([frame(content=content)] if content else []), *(frame(tool_calls=[one]) for one in made))


def raw(*writes: bytes, gap: float = 0.0, cut: bool = False) -> Step:
    """Exactly these writes under status 200; `cut` drops the connection in the middle of the answer."""

    async def play(answer: "Answer", body: Json) -> None:
        await answer.begin()
        for data in writes:
            await answer.write(data)
            await asyncio.sleep(gap)
        if cut:
            answer.drop()

    return play


def status(code: int, body: Any = "", content_type: str = "application/json") -> Step:
    async def play(answer: "Answer", _: Json) -> None:
        await answer.whole(code, body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode(), content_type)

    return play


def dropped() -> Step:
    """Closes the connection without an answer."""

    async def play(answer: "Answer", _: Json) -> None:
        answer.drop()

    return play


def replay(name: str) -> Step:
    """A recorded exchange, without its waits; lines that were left out of the recording are left out here."""
    recorded = json.loads((RECORDINGS / f"{name}.json").read_text())["response"]

    async def play(answer: "Answer", _: Json) -> None:
        lines = [content for at, content in recorded["lines"] if at != "…"]
        if recorded["status"] != 200:
            await answer.whole(recorded["status"], "\n".join(lines).encode(), recorded["headers"].get("Content-Type", ""))
            return
        await answer.begin(content_type=recorded["headers"].get("Content-Type", ""))
        for content in lines:
            await answer.write(content.encode() + b"\n")

    return play


def hang(seconds: float = 3600.0, then: Step | None = None) -> Step:
    """Silent for `seconds`, or until the client goes away."""

    async def play(answer: "Answer", body: Json) -> None:
        await answer.unless_gone(asyncio.sleep(seconds))
        await (then or text("late"))(answer, body)

    return play


def gated(gate: Gate, then: Step, before: Step | None = None) -> Step:
    """Plays `before` (without a final frame: see `begun`), waits for the gate or the client's leaving, then plays `then`."""

    async def play(answer: "Answer", body: Json) -> None:
        if before is not None:
            await before(answer, body)
        await answer.unless_gone(gate.wait())
        await then(answer, body)

    return play


def begun(content: str, size: int = 6) -> Step:
    """The beginning of an answer, without its end."""

    async def play(answer: "Answer", _: Json) -> None:
        for at in range(0, len(content), size):
            await answer.write(line(frame(content=content[at : at + size])))

    return play


def prefill(gate: Gate, then: Step | None = None) -> Step:
    """A server that reads a prompt silently until the gate opens, even when nobody waits for it any more; with `one_slot`
    the next chat waits for it."""

    async def play(answer: "Answer", body: Json) -> None:
        await gate.wait()
        if answer.gone.is_set():
            raise Gone
        await (then or text("read"))(answer, body)

    return play


# the server --------------------------------------------------------------------------------------------------------


class Answer:
    """What a step writes to. Raises Gone when the client has closed the connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.gone = asyncio.Event()
        self.begun = self.ended = self.dropped = self.noted = False
        self._writer = writer

    async def begin(self, code: int = 200, content_type: str = "application/x-ndjson") -> None:
        if not self.begun:
            self.begun = True
            await self._put(f"HTTP/1.1 {code} OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())

    async def write(self, data: bytes) -> None:
        await self.begin()
        if data:
            await self._put(b"%x\r\n%b\r\n" % (len(data), data))

    async def whole(self, code: int, body: bytes, content_type: str) -> None:
        self.begun = self.ended = True
        head = f"HTTP/1.1 {code} X\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        await self._put(head.encode() + body)

    async def end(self) -> None:
        if self.dropped or self.ended:
            return
        await self.begin()
        self.ended = True
        await self._put(b"0\r\n\r\n")

    def drop(self) -> None:
        self.dropped = True
        self._writer.close()

    async def unless_gone(self, work: Any) -> None:
        """Waits for `work`; raises Gone when the client leaves first."""
        working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(self.gone.wait())
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            leaving.cancel()
        if self.gone.is_set():
            raise Gone

    async def _put(self, data: bytes) -> None:
        if self.gone.is_set():
            raise Gone
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError:
            raise Gone from None


@dataclass
class FakeOllama:
    """See the module's text. `window`: the trained one."""

    port: int = 0
    model: str = "qwen3.5:2b"
    window: int = 262144
    capabilities: tuple[str, ...] | None = ("completion", "tools")
    vocabulary: Json | None = None
    version: str = "0.34.0"
    digest: str = "ab" * 32
    key: str | None = None
    load_s: float = 0.0
    load_gate: Gate | None = None
    load_step: Step | None = None
    allocated: int | None = None
    one_slot: bool = False
    missing: set[str] = field(default_factory=set)
    summary: Step = field(default_factory=lambda: text("Summary of the earlier conversation."))
    warm_up: Step = field(default_factory=lambda: frames(frame(content="x"), end=last("length", output=1)))

    def __post_init__(self) -> None:
        self.chats: list[Json] = []
        self.warm_ups: list[Json] = []
        self.loads: list[Json] = []
        self.summaries: list[Json] = []
        self.questions: list[tuple[str, str]] = []
        self.headers: dict[str, str] = {}
        self.left: list[Closed] = []
        self.faults: list[BaseException] = []
        self.models: dict[str, FakeModel] = {}
        self._steps: deque[Step] = deque()
        self._changed = threading.Condition()
        self.add_model(self.model, self.capabilities, self.window, self.digest, self.vocabulary)

    # for the test -------------------------------------------------------------------------------------------------

    def __enter__(self) -> "FakeOllama":
        self.start()
        return self

    def start(self) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="fake-ollama", daemon=True)
        self._thread.start()
        if not self._ready.wait(WAIT_S):
            raise RuntimeError("the fake Ollama did not start")

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self.faults:
            raise self.faults[0]

    def stop(self) -> None:
        """From now on connections are refused. `start` on the same port brings it back."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(WAIT_S)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def show(self) -> Json:
        """The answer of /api/show for the first model; change it in place."""
        return self.models[self.model].show

    @property
    def loaded(self) -> bool:
        return self.models[self.model].loaded

    @loaded.setter
    def loaded(self, value: bool) -> None:
        self.models[self.model].loaded = value

    def add_model(
        self, name: str, capabilities: tuple[str, ...] | None = ("completion", "tools"), window: int = 32768, digest: str = "cd" * 32,
        vocabulary: Json | None = None, architecture: str = "qwen35",
    ) -> None:
        info: Json = {"general.architecture": architecture, f"{architecture}.context_length": window}
        show: Json = {
            "modelfile": "", "template": "{{ .Prompt }}", "details": {"family": architecture, "format": "gguf"},
            "model_info": info, "modified_at": "2026-07-01T10:00:00.000000000+02:00",
        }
        if capabilities is not None:
            show["capabilities"] = list(capabilities)
        if vocabulary is not None:
            info.update({key: None if isinstance(value, list) else value for key, value in vocabulary.items()})
        self.models[name] = FakeModel(name, show, digest, vocabulary)

    def script(self, *steps: Step) -> None:
        """Adds steps behind those that are left."""
        self._steps.extend(steps)

    def forget_script(self) -> None:
        self._steps.clear()

    async def asked(self, chats: int) -> None:
        await self._until(lambda: len(self.chats) >= chats)

    async def closed(self, clients: int = 1) -> None:
        await self._until(lambda: len(self.left) >= clients)

    async def questioned(self, path: str) -> None:
        await self._until(lambda: any(asked == path for _, asked in self.questions))

    async def loading(self, loads: int = 1) -> None:
        await self._until(lambda: len(self.loads) >= loads)

    async def _until(self, holds: Callable[[], bool]) -> None:
        def wait() -> bool:
            with self._changed:
                return self._changed.wait_for(holds, WAIT_S)

        if not await asyncio.to_thread(wait):
            raise AssertionError(f"waited in vain; chats {len(self.chats)}, left {len(self.left)}, asked {self.questions[-8:]}")

    # in the server's thread -----------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        self._loop, self._stop, self._slot = asyncio.get_running_loop(), asyncio.Event(), asyncio.Lock()
        self._clients: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._client, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        for _ in range(8):  # whoever connected in the last moment is accepted before the server closes
            await asyncio.sleep(0)
        server.close()
        for client in list(self._clients):
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            await self._exchange(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client or the test has ended this connection
        except BaseException as fault:
            self.faults.append(fault)
            raise
        finally:
            self._clients.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value for name, _, value in (item.partition(": ") for item in head[1:] if item)}
        body = json.loads(await reader.readexactly(int(headers.get("content-length", "0"))) or b"{}")
        answer = Answer(writer)
        watcher = asyncio.ensure_future(self._watch(reader, answer, path, body))
        try:
            with self._changed:
                self.headers = headers
            await self._answer(answer, method, path, body, headers)
            await answer.end()
        except Gone:
            self._left_by_client(answer, path, body)
        finally:
            answer.ended = True
            watcher.cancel()

    async def _watch(self, reader: asyncio.StreamReader, answer: Answer, path: str, body: Json) -> None:
        """A client sends nothing behind its request: the next thing to read is its leaving."""
        try:
            await reader.read(1)
        except OSError:
            pass
        if not answer.ended and not answer.dropped:
            self._left_by_client(answer, path, body)

    def _left_by_client(self, answer: Answer, path: str, body: Json) -> None:
        if answer.noted:
            return
        answer.noted = True
        answer.gone.set()
        with self._changed:
            self.left.append(Closed(path, body, time.monotonic()))
            self._changed.notify_all()

    async def _answer(self, answer: Answer, method: str, path: str, body: Json, headers: dict[str, str]) -> None:
        if self.key is not None and headers.get("authorization") != f"Bearer {self.key}":
            await status(401, {"error": "unauthorized"})(answer, body)
        elif path in self.missing:
            await status(404, "404 page not found", "text/plain")(answer, body)
        elif path == "/api/chat" and method == "POST":
            await self._chat(answer, body)
        else:
            await self._question(answer, method, path, body)

    async def _question(self, answer: Answer, method: str, path: str, body: Json) -> None:
        self._note(self.questions, (method, path))
        known: dict[tuple[str, str], Callable[[], Json]] = {
            ("GET", "/api/version"): lambda: {"version": self.version},
            ("GET", "/api/tags"): lambda: {"models": [self._listed(one) for one in self.models.values()]},
            ("GET", "/api/ps"): lambda: {"models": [{**self._listed(one), "context_length": self._allocated(one)} for one in self.models.values() if one.loaded]},
        }
        if (method, path) == ("POST", "/api/show"):
            await self._show(answer, body)
        elif (method, path) in known:
            await status(200, known[method, path]())(answer, body)
        else:
            await status(404, "404 page not found", "text/plain")(answer, body)

    async def _show(self, answer: Answer, body: Json) -> None:
        model = self.models.get(body.get("model", ""))
        if model is None:
            await status(404, {"error": f"model '{body.get('model')}' not found"})(answer, body)
            return
        shown = model.show
        if body.get("verbose") and model.vocabulary:
            shown = {**shown, "model_info": {**shown["model_info"], **model.vocabulary}}
        await status(200, shown)(answer, body)

    async def _chat(self, answer: Answer, body: Json) -> None:
        model = self.models.get(body.get("model", ""))
        if model is None:
            await status(404, {"error": f"model '{body.get('model')}' not found"})(answer, body)
            return
        options = body.get("options", {})
        if not body.get("messages"):
            self._note(self.loads, body)
            await self._load(answer, model, options)
            done = {**frame(), "done": True, "done_reason": "load"}
            await (self.load_step or status(200, done))(answer, body)
            return
        if self.one_slot:
            async with self._slot:
                await self._play(answer, body, model, options)
        else:
            await self._play(answer, body, model, options)

    async def _play(self, answer: Answer, body: Json, model: FakeModel, options: Json) -> None:
        step = self._step(body, options)
        await self._load(answer, model, options)
        await step(answer, body)

    def _step(self, body: Json, options: Json) -> Step:
        if options.get("num_predict") == 1:
            self._note(self.warm_ups, body)
            return self.warm_up
        system = " ".join(str(item.get("content", "")) for item in body["messages"] if item["role"] == "system").lower()
        if not body.get("tools") and "summar" in system:
            self._note(self.summaries, body)
            return self.summary
        self._note(self.chats, body)
        return self._steps.popleft() if self._steps else text("ok")

    async def _load(self, answer: Answer, model: FakeModel, options: Json) -> None:
        """A client that goes away during the load aborts it."""
        model.num_ctx = options.get("num_ctx", 0)
        if not model.loaded:
            await answer.unless_gone(self.load_gate.wait() if self.load_gate else asyncio.sleep(self.load_s))
            model.loaded = True

    def _allocated(self, model: FakeModel) -> int:
        return self.allocated or min(model.num_ctx, self.window)

    def _listed(self, model: FakeModel) -> Json:
        return {"name": model.name, "model": model.name, "digest": model.digest, "size": 1, "details": {}}

    def _note(self, kept: list[Any], item: Any) -> None:
        with self._changed:
            kept.append(item)
            self._changed.notify_all()
