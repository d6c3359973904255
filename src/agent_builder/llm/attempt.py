"""Attempt: one HTTP request of a model call, from its first byte to a checked answer or a fault."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from agent_builder.llm.assembly import AnswerAssembly, Assembled, AssemblyRules
from agent_builder.llm.frame_reader import FrameReader
from agent_builder.llm.frames import Frame
from agent_builder.llm.models import Models
from agent_builder.llm.ollama import chat_body
from agent_builder.llm.prefill import OpenCall
from agent_builder.llm.provider_http import HttpExchange
from agent_builder.llm.usage import NO_USAGE, CheckedUsage
from agent_builder.llm.waits import CallWaits
from agent_builder.protocol.errors import ModelContextTruncated, ModelFirstFrameTimeout, ModelTransport, RunError
from agent_builder.protocol.events import RunStage, Stage, TransportAttemptFinished, TransportAttemptStarted
from agent_builder.protocol.model_profile import QualifiedModel
from agent_builder.protocol.ports import Clock, Emit
from agent_builder.protocol.request import RenderedRequest

_WORK: Final = ("evaluating_prompt", "thinking", "answering")
OnText = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Outlet:
    """Where the facts and pieces of an answer go."""

    emit: Emit
    on_text: OnText
    on_thinking: OnText

    async def stage(self, stage: Stage, expected_s: float | None = None) -> None:
        await self.emit(RunStage(stage=stage, expected_s=None if expected_s is None else round(expected_s, 1)))


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked. `call`: the number under which attempts are told as durable events, None for a summary, which is no
    part of its Run's answer."""

    model: QualifiedModel
    rendered: RenderedRequest
    rules: AssemblyRules
    call: int | None


class Attempt:
    """`run` once. `first_frame` tells afterwards whether the provider had begun to answer."""

    def __init__(self, task: Task, number: int, waits: CallWaits, outlet: Outlet, models: Models, clock: Clock) -> None:
        self.first_frame = False
        self.after_cancelled = models.prefill.cancelled_prompt_s(task.model.profile.endpoint) > 0
        self._task = task
        self._number = number
        self._began = clock.monotonic()
        self._waits = waits
        self._outlet = outlet
        self._models = models
        self._clock = clock
        self._endpoint = task.model.profile.endpoint
        self._estimate = models.prefill.estimate(task.model, task.rendered)
        self._assembly = AnswerAssembly(task.rules)
        self._exchange: HttpExchange | None = None
        self._loading = self._told = False
        self._shown: Stage | None = None

    async def run(self) -> tuple[Assembled, CheckedUsage]:
        call = self._models.prefill.opened(self._endpoint, self._wake)
        try:
            return await self._run(call)
        finally:
            self._models.prefill.closed(self._endpoint, call)

    def left_in_silence(self) -> None:
        """Nobody waits for this attempt any more. A load is given up with its connection; the reading of a prompt may go on
        without us."""
        if not self._loading:
            silent_s = self._clock.monotonic() - self._began
            self._models.prefill.cancelled_before_a_frame(self._endpoint, self._estimate, silent_s)

    async def ended(self, outcome: str) -> None:
        """Tells how far this attempt came: a first frame, or the code of its fault."""
        if self._task.call is not None:
            ms = round((self._clock.monotonic() - self._began) * 1000)
            finished = TransportAttemptFinished(call=self._task.call, attempt=self._number, outcome=outcome, ms=ms)
            await self._outlet.emit(*([] if self._told else [self._started(self._task.call)]), finished)

    def _started(self, call: int) -> TransportAttemptStarted:
        self._told = True
        return TransportAttemptStarted(call=call, attempt=self._number)

    async def _run(self, call: OpenCall) -> tuple[Assembled, CheckedUsage]:
        task, client = self._task, self._models.client
        self._waits.new_attempt(self._estimate)
        body = chat_body(task.model, task.rendered, "summary" if task.call is None else "turn")
        self._exchange = exchange = await client.open_chat(task.model.profile, body)
        async with beside(self._watch_memory()):
            final = await self._read_or_close(exchange, call)
        if final is None:
            exchange.close()
            return await self._finish("stop"), NO_USAGE
        client.release(exchange)
        return await self._checked(final)

    async def _read_or_close(self, exchange: HttpExchange, call: OpenCall) -> Frame | None:
        task = self._task
        try:
            if task.call is not None:  # told while the provider is already at work
                await self._outlet.emit(self._started(task.call))
            return await self._read(FrameReader(exchange, task.model.profile.output_cap), call)
        except BaseException as fault:
            exchange.close()  # before anything else is awaited: the provider must see it at once
            if not self.first_frame:
                self._broken_off(fault)
            raise

    def _broken_off(self, fault: BaseException) -> None:
        """A server that did not refuse the prompt has read a part of it that nobody knows."""
        cancelled = isinstance(fault, asyncio.CancelledError)
        if cancelled or isinstance(fault, ModelFirstFrameTimeout | ModelTransport):
            self._models.prefill.forget(self._task.model)
        if cancelled:
            self.left_in_silence()

    async def _read(self, reader: FrameReader, call: OpenCall) -> Frame | None:
        """The final frame, or None when the repetition guard has ended the stream."""
        frames = await self._first_frames(reader, call)
        self._begun(call)
        end = self._take_in(frames)
        await self._deliver()
        await self.ended("first_frame")
        while end is None and not self._assembly.repeated:
            end = self._take_in(await self._next_frames(reader))
            await self._deliver()
        return end

    def _begun(self, call: OpenCall) -> None:
        self.first_frame = True
        self._models.prefill.got_first_frame(self._endpoint, call)
        self._models.prefill.remember(self._task.model, self._task.rendered)
        self._models.answered(self._task.model.model_id)

    def _take_in(self, frames: list[Frame]) -> Frame | None:
        for frame in frames:
            self._assembly.feed(frame)
            if frame.done:
                return frame
            if self._assembly.repeated:
                return None
        return None

    async def _first_frames(self, reader: FrameReader, call: OpenCall) -> list[Frame]:
        waited = False
        while True:
            running = not (self._loading or self._models.prefill.is_behind(self._endpoint, call))
            if running and waited:
                self._begin_anew()
            waited = not running
            await self._show_silence()
            wait = self._waits.first_frame(running=running)
            try:
                async with self._clock.timeout(wait.seconds):
                    frames = await reader.batch()
            except TimeoutError:
                raise wait.fault from None
            finally:
                self._waits.spend(running=running)
            if frames:
                return frames

    def _begin_anew(self) -> None:
        """The server comes to this call only now, and what it has kept may have changed while it did something else."""
        self._estimate = self._models.prefill.estimate(self._task.model, self._task.rendered)
        self._waits.new_attempt(self._estimate)

    async def _next_frames(self, reader: FrameReader) -> list[Frame]:
        """The idle clock runs from frame to frame, however many reads that takes."""
        wait = self._waits.next_frame()
        try:
            async with self._clock.timeout(wait.seconds):
                while not (frames := await reader.batch()):
                    pass
        except TimeoutError:
            raise wait.fault from None
        return frames

    async def _checked(self, final: Frame) -> tuple[Assembled, CheckedUsage]:
        task = self._task
        usage = self._models.prefill.observe(task.model, task.rendered, self._estimate, final.usage or NO_USAGE)
        try:
            self._trip(usage)
            return await self._finish(final.done_reason), usage
        except RunError as error:
            error.details["usage"] = usage
            raise

    async def _finish(self, done_reason: str) -> Assembled:
        assembled = self._assembly.finish(done_reason)
        await self._deliver()
        return assembled

    def _trip(self, usage: CheckedUsage) -> None:
        if usage.input and not self._models.can_be_true(self._task.model, self._task.rendered, usage.input):
            raise ModelContextTruncated

    async def _deliver(self) -> None:
        thinking, text = self._assembly.take()
        if thinking:
            await self._show("thinking")
            await self._outlet.on_thinking(thinking)
        if text:
            await self._show("answering")
            await self._outlet.on_text(text)

    async def _show_silence(self) -> None:
        expected = self._estimate.expected_s
        if self._loading:
            await self._show("loading_model")
        elif self.after_cancelled:
            rest = self._models.prefill.cancelled_prompt_s(self._endpoint)
            await self._show("cancelled_prompt", rest + (expected or 0.0))
        else:
            await self._show("evaluating_prompt", expected)

    async def _show(self, stage: Stage, expected_s: float | None = None) -> None:
        if self._task.call is None and stage in _WORK:
            stage = "summarising"
        if stage != self._shown:
            self._shown = stage
            await self._outlet.stage(stage, expected_s)

    def _wake(self) -> None:
        if self._exchange is not None:
            self._exchange.wake()

    async def _watch_memory(self) -> None:
        """Asks whether the server has the model in memory. If not, the silence is that of loading until it has."""
        model = self._task.model
        try:
            loaded = await self._models.client.loaded(model.profile)
            if self._models.is_ready(model, loaded) or self.first_frame:
                return
            self._models.prefill.emptied(model)
            self._loading = True
            self._wake()
            await self._models.reload(model)
        except RunError:
            pass  # the call itself will meet what is wrong, and tell it
        except asyncio.CancelledError:
            if self.first_frame:
                self._models.needs_no_reload(model)
            raise
        finally:
            self._loading = False
            self._wake()


@asynccontextmanager
async def beside(work: Awaitable[None]) -> AsyncIterator[None]:
    """Begins `work`, does it beside the block and ends it with the block; a fault of it is raised there."""
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
        if not task.cancelled():
            task.result()
