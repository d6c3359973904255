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
    UserText,
    WorkerFrame,
)
from agent_builder.protocol.limits import (
    CONTENT_FRAMES,
    MESSAGE_BYTES,
    MODEL_CALLS_MAX,
    RAW_STREAM_BYTES,
    TOOL_CALLS_MAX,
)
from agent_builder.protocol.toolspec import ToolCatalog

ECHO = "builtin/echo"


class Waiting(Enum):
    """What the kernel waits for."""

    START = "start"
    MESSAGE = "message"
    MODEL = "model"
    TOOL = "tool"
    NOTHING = "nothing"


class HarnessKernel:
    """Gives at most one terminal frame (Final or Failed); every frame after it is answered with nothing."""

    def __init__(self, catalog: ToolCatalog) -> None:
        self._catalog = catalog
        self._waiting = Waiting.START
        self._start: Start | None = None
        self._message_bytes = 0
        self._model_calls = 0
        self._tool_calls = 0
        self._call = 0
        self._answering = False
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
            case UserText() if self._waiting is Waiting.MESSAGE:
                return self._take_message(frame)
            case ModelText() if self._takes_number(frame.call):
                return self._count_text(frame)
            case ModelDone() if self._takes_number(frame.call):
                return self._after_model(frame)
            case ModelFailed() if self._takes_number(frame.call):
                return self._fail(frame.code)
            case ToolResult() if self._waiting is Waiting.TOOL and frame.call_id == self._queue[0].call_id:
                return self._after_tool(frame.call_id)
            case _:
                return self._fail("worker_protocol")

    def _takes_number(self, call: int) -> bool:
        """The host numbers the provider calls, and one that it repeats gets a new number: a model call is answered under one
        number, higher than those before."""
        if self._waiting is not Waiting.MODEL or (call != self._call if self._answering else call <= self._call):
            return False
        self._call, self._answering = call, True
        return True

    def _begin(self, start: Start) -> list[WorkerFrame]:
        known = all(self._catalog.get(tool_id) for tool_id in start.tool_ids)
        if not known or not 1 <= start.model_calls <= MODEL_CALLS_MAX or start.tool_calls > TOOL_CALLS_MAX:
            return self._fail("worker_protocol")
        self._start, self._waiting = start, Waiting.MESSAGE
        return []

    def _take_message(self, part: UserText) -> list[WorkerFrame]:
        self._message_bytes += _size(part.text)
        if self._message_bytes > MESSAGE_BYTES:
            return self._fail("worker_protocol")
        return self._ask_model() if part.last else []

    def _ask_model(self) -> list[WorkerFrame]:
        start = self._started()
        if self._model_calls >= start.model_calls:
            return self._fail("model_tool_loop")
        self._model_calls += 1
        self._text_frames = self._text_bytes = 0
        self._waiting, self._answering = Waiting.MODEL, False
        results, self._results = self._results, []
        return [ModelCall(Reference(*start.plan), Reference(*start.toolset), results)]

    def _count_text(self, frame: ModelText) -> list[WorkerFrame]:
        """The words are the host's own record; the Worker only checks that they stay within their bounds."""
        self._text_frames += 1
        self._text_bytes += _size(frame.text)
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
        """One call at a time; after the last it is the model's turn."""
        if not self._queue:
            return self._ask_model()
        self._waiting = Waiting.TOOL
        call = self._queue[0]
        if call.tool_id == ECHO:
            return [LocalResult(call.call_id, str(call.arguments["text"]))]
        return [ToolCall(call.call_id, call.tool_id, call.arguments)]

    def _after_tool(self, call_id: str) -> list[WorkerFrame]:
        """The host has recorded the result of a brokered or local call."""
        self._queue.pop(0)
        self._results.append(call_id)
        return self._next_tool()

    def _fail(self, code: str) -> list[WorkerFrame]:
        self._waiting = Waiting.NOTHING
        return [Failed(code)]

    def _started(self) -> Start:
        assert self._start is not None
        return self._start


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
