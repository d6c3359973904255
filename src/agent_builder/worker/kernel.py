"""HarnessKernel: the loop of one Run, `plan -> model call -> (tool call -> result -> model call)* -> final`.

A pure state machine: `step` takes one host frame and gives the frames to send. No clock, no input, no output. It asks; the
host decides, and the host checks everything again, since it trusts no Worker.
"""

from enum import Enum

from agent_builder.protocol.frames import (
    CallProposal,
    Failed,
    Final,
    HostFrame,
    LocalResult,
    ModelCall,
    ModelDone,
    ModelFailed,
    ModelText,
    Reference,
    Start,
    ToolCall,
    ToolResult,
    WorkerFrame,
)
from agent_builder.protocol.limits import CONTENT_FRAMES, MODEL_CALLS_MAX, RAW_STREAM_BYTES, TOOL_CALLS_MAX
from agent_builder.protocol.toolspec import ToolCatalog

ECHO = "builtin/echo"


class Waiting(Enum):
    """What the kernel waits for."""

    START = "start"
    MODEL = "model"
    TOOL = "tool"
    NOTHING = "nothing"


class HarnessKernel:
    """Gives at most one terminal frame (Final or Failed); every frame after it is answered with nothing."""

    def __init__(self, catalog: ToolCatalog) -> None:
        self._catalog = catalog
        self._waiting = Waiting.START
        self._start: Start | None = None
        self._model_calls = 0
        self._tool_calls = 0
        self._text_frames = 0
        self._text_bytes = 0
        self._seen: set[str] = set()
        self._results: list[str] = []
        self._queue: list[CallProposal] = []

    @property
    def finished(self) -> bool:
        return self._waiting is Waiting.NOTHING

    def step(self, frame: HostFrame) -> list[WorkerFrame]:
        """The frames to send, in order. A frame out of its turn ends the Run with `worker_protocol`."""
        if self.finished:
            return []
        match frame:
            case Start() if self._waiting is Waiting.START:
                return self._begin(frame)
            case ModelText() if self._awaits(frame.call):
                return self._count_text(frame)
            case ModelDone() if self._awaits(frame.call):
                return self._after_model(frame)
            case ModelFailed() if self._awaits(frame.call):
                return self._fail(frame.code)
            case ToolResult() if self._waiting is Waiting.TOOL and frame.call_id == self._queue[0].call_id:
                return self._after_tool(frame.call_id)
            case _:
                return self._fail("worker_protocol")

    def _awaits(self, call: int) -> bool:
        return self._waiting is Waiting.MODEL and call == self._model_calls

    def _begin(self, start: Start) -> list[WorkerFrame]:
        known = all(self._catalog.get(tool_id) for tool_id in start.tool_ids)
        if not known or not 1 <= start.model_calls <= MODEL_CALLS_MAX or start.tool_calls > TOOL_CALLS_MAX:
            return self._fail("worker_protocol")
        self._start = start
        return self._ask_model()

    def _ask_model(self) -> list[WorkerFrame]:
        start = self._started()
        if self._model_calls >= start.model_calls:
            return self._fail("model_tool_loop")
        self._model_calls += 1
        self._text_frames = self._text_bytes = 0
        self._waiting = Waiting.MODEL
        plan, toolset = Reference(*start.plan), Reference(*start.toolset)
        return [ModelCall(plan, toolset, list(self._results))]

    def _count_text(self, frame: ModelText) -> list[WorkerFrame]:
        """The words are the host's own record; the Worker only checks that they stay within their bounds."""
        self._text_frames += 1
        self._text_bytes += len(frame.text.encode("utf-8", "surrogatepass"))
        if self._text_frames > CONTENT_FRAMES or self._text_bytes > RAW_STREAM_BYTES:
            return self._fail("worker_protocol")
        return []

    def _after_model(self, done: ModelDone) -> list[WorkerFrame]:
        if done.correction:
            return self._fail("worker_protocol") if done.calls else self._ask_model()
        if not done.calls:
            self._waiting = Waiting.NOTHING
            return [Final(done.call)]
        return self._accept(done.calls) if self._allowed(done.calls) else self._fail("model_tool_loop")

    def _allowed(self, calls: list[CallProposal]) -> bool:
        """Within the budget, not parallel unless that is agreed, no call id twice, each one offered and well-formed."""
        start = self._started()
        new_ids = {call.call_id for call in calls}
        return (
            (len(calls) == 1 or start.several_calls)
            and self._tool_calls + len(calls) <= start.tool_calls
            and len(new_ids) == len(calls)
            and not new_ids & self._seen
            and all(self._offered(call) for call in calls)
        )

    def _offered(self, call: CallProposal) -> bool:
        spec = self._catalog.get(call.tool_id)
        return spec is not None and call.tool_id in self._started().tool_ids and spec.fault(call.arguments) is None

    def _accept(self, calls: list[CallProposal]) -> list[WorkerFrame]:
        self._tool_calls += len(calls)
        self._seen.update(call.call_id for call in calls)
        self._queue = list(calls)
        return self._next_tool()

    def _next_tool(self) -> list[WorkerFrame]:
        """Runs Worker-local calls at once; stops at the first that the host must answer. Then the model's turn."""
        sent: list[WorkerFrame] = []
        while self._queue and self._is_local(self._queue[0]):
            call = self._queue.pop(0)
            self._results.append(call.call_id)
            sent.append(LocalResult(call.call_id, str(call.arguments["text"])))
        if not self._queue:
            return sent + self._ask_model()
        self._waiting = Waiting.TOOL
        return [*sent, ToolCall(*self._queue[0])]

    def _is_local(self, call: CallProposal) -> bool:
        return call.tool_id == ECHO

    def _after_tool(self, call_id: str) -> list[WorkerFrame]:
        self._queue.pop(0)
        self._results.append(call_id)
        return self._next_tool()

    def _fail(self, code: str) -> list[WorkerFrame]:
        self._waiting = Waiting.NOTHING
        return [Failed(code)]

    def _started(self) -> Start:
        assert self._start is not None
        return self._start
