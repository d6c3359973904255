"""Engine: the one loaded model, and one answer at a time, over llama.cpp in this process.

Two pinned slots keep the prefix of requests with tools and of requests without apart, so neither costs the other its cache.
"""

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from agent_builder.local_model import bounds
from agent_builder.local_model.ollama_shapes import BILLION, Model
from agent_builder.local_model.requests import OllamaError

SLOT_WITHOUT_TOOLS, SLOT_WITH_TOOLS, SLOTS = 0, 1, 2
Gone = Callable[[], bool]


class ClientGone(Exception):
    """The client closed its connection; nobody waits for an answer."""


class Turnstile:
    """Lets one request through at a time, in the order they came; a client that leaves loses its place."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()

    @contextmanager
    def entered(self, gone: Gone, unless: Callable[[], bool] = lambda: False) -> Iterator[bool]:
        """Gives True when it is this request's turn, False when `unless` made its turn needless before. Raises OllamaError
        when too many wait, ClientGone."""
        ticket = object()
        with self._changed:
            if len(self._waiting) > bounds.QUEUED_REQUESTS:
                raise OllamaError(503, "server busy, please try again.  maximum pending requests exceeded")
            self._waiting.append(ticket)
        try:
            yield self._wait(ticket, gone, unless)
        finally:
            with self._changed:
                self._waiting.remove(ticket)
                self._changed.notify_all()

    def _wait(self, ticket: object, gone: Gone, unless: Callable[[], bool]) -> bool:
        with self._changed:
            while self._waiting[0] is not ticket:
                if unless():
                    return False
                self._changed.wait(bounds.GONE_CHECK_S)
                if gone():
                    raise ClientGone
        return True


class Engine:
    """Loads, answers and unloads. Every method but `holds` is called inside `turnstile.entered`."""

    def __init__(self) -> None:
        self.turnstile = Turnstile()
        self.model: Model | None = None
        self.window = 0
        self.expires_ns = 0
        self._shift = False
        self._server: Any = None
        self._timer: threading.Timer | None = None

    def load(self, model: Model, num_ctx: int, shift: bool) -> int:
        """Returns the nanoseconds it took. A change of model, window or shift reloads, as in Ollama."""
        started = time.monotonic_ns()
        if self.holds(model, num_ctx, shift):
            return time.monotonic_ns() - started
        window = _window(model, num_ctx)
        self.unload()
        try:
            self._server = _llama_server(model, window, shift)
        except Exception as error:
            raise OllamaError(500, f"unable to load model: {model.name}") from error
        self.model, self.window, self._shift = model, window, shift
        return time.monotonic_ns() - started

    def holds(self, model: Model, num_ctx: int, shift: bool) -> bool:
        """Whether a request for this needs no load."""
        return self.model is model and self.window == _window(model, num_ctx) and self._shift == shift

    def answer(self, body: dict[str, Any], accept: Callable[[dict[str, Any]], bool]) -> None:
        """Runs one completion; `accept` gets every chunk and returns True to stop at once, prompt evaluation included."""
        failed: list[BaseException] = []

        def chunk(value: Any) -> bool:
            try:
                return bool(failed) or accept(value)
            except BaseException as error:  # noqa: BLE001 — carried through llama.cpp and raised again below
                failed.append(error)
                return True

        try:
            self._server.handle_chat_completions(body, chunk)
        except ValueError as error:  # what llama.cpp refuses to combine, such as tools with a format
            raise OllamaError(500, str(error)) from error
        if failed:
            raise failed[0]

    def unload(self) -> None:
        self.model, self.window, self._server = None, 0, None

    def keep(self, keep_alive_s: float | None) -> None:
        """Starts the clock after which the idle model is unloaded; 0 unloads now, a negative time never does."""
        if self._timer is not None:
            self._timer.cancel()
        seconds = bounds.KEEP_ALIVE_S if keep_alive_s is None else keep_alive_s
        if seconds == 0:
            self.unload()
            return
        forever = seconds < 0
        self.expires_ns = time.time_ns() + int((threading.TIMEOUT_MAX if forever else seconds) * BILLION)
        if not forever:
            self._timer = threading.Timer(seconds, self._expire)
            self._timer.daemon = True
            self._timer.start()

    def _expire(self) -> None:
        with self.turnstile.entered(lambda: False):
            if time.time_ns() >= self.expires_ns:
                self.unload()


def _window(model: Model, num_ctx: int) -> int:
    return max(bounds.NUM_CTX_MIN, min(num_ctx, model.gguf.context_length))


def _llama_server(model: Model, window: int, shift: bool) -> Any:
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model.gguf.path)
    parameters.n_ctx = SLOTS * window
    parameters.n_parallel = SLOTS
    parameters.kv_unified = False
    parameters.fit_params = False
    parameters.n_batch = parameters.n_ubatch = bounds.BATCH_TOKENS
    parameters.cache_ram_mib = bounds.PROMPT_CACHE_MIB
    parameters.ctx_shift = shift
    parameters.use_jinja = True
    parameters.warmup = False
    parameters.verbosity = 1
    parameters.cpuparams.poll = parameters.cpuparams_batch.poll = 0  # idle threads sleep instead of spinning
    # llama.cpp opens a port of its own on loopback: nobody gets its key, and it shows neither slots nor a page.
    parameters.api_keys = [secrets.token_hex(32)]
    parameters.endpoint_slots = False
    parameters.endpoint_metrics = False
    parameters.ui = False
    parameters.n_threads_http = 1
    return xllamacpp.Server(parameters)
