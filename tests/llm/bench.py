"""A Broker before a fake Ollama, with everything it told and passed on kept for comparison."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_builder.llm.broker import ModelAnswer, ModelBroker, ModelRequest
from agent_builder.llm.catalog import Catalog
from agent_builder.llm.models import Models
from agent_builder.protocol.digest import digest_of
from agent_builder.protocol.events import Payload, RunStage, TransportAttemptFinished
from agent_builder.protocol.model_profile import ModelProfile, QualifiedModel, Timeouts
from agent_builder.protocol.request import RenderedRequest, Units
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.protocol.toolspec import ToolSpec
from tests.support.clock import MovableClock
from tests.support.fake_ollama import FakeOllama

READ, STAT = CATALOG.specs[0], CATALOG.specs[1]
RUN_S = 1000.0


def profile(fake: FakeOllama, **changes: Any) -> ModelProfile:
    timeouts = changes.pop("timeouts", Timeouts())
    made = ModelProfile("test", "Test", fake.url, fake.model, think=False, timeouts=timeouts)
    return replace(made, **changes)


def rendered(*messages: str, tools: Sequence[ToolSpec] = (), system: str = "Be brief.", exact: bool = False) -> RenderedRequest:
    """A request that counts one token per four characters; messages alternate between user and assistant."""
    texts: list[dict[str, object]] = [{"role": "system", "content": system}]
    texts += [{"role": "user" if index % 2 == 0 else "assistant", "content": text} for index, text in enumerate(messages)]
    schemas = tuple(spec.provider_schema() for spec in tools)
    sizes = (len(json.dumps(schemas)) // 4 if schemas else 0, *(len(str(text["content"])) // 4 + 1 for text in texts))
    return RenderedRequest(
        messages=tuple(texts), tools=schemas, admission_tokens=sum(sizes) + 16 * len(texts) + 256, text_tokens=sum(sizes), spare_tokens=0,
        units=Units(messages=len(texts)), message_bytes=sum(len(str(text["content"]).encode()) for text in texts), counter="gguf-bpe-v1" if exact else "utf8-bytes-upper-bound-v1",
        exact=exact, digest=digest_of([texts, schemas]), prefix_digests=(digest_of(schemas), *map(digest_of, texts)), prefix_tokens=sizes,
    )


class Bench:
    """`told`: every payload; `texts` and `thoughts`: the pieces in the order in which they came."""

    def __init__(self, models: Models, clock: MovableClock) -> None:
        self.models, self.clock = models, clock
        self.broker = ModelBroker(models, clock)
        self.told: list[Payload] = []
        self.texts: list[str] = []
        self.thoughts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def stages(self) -> list[str]:
        return [payload.stage for payload in self.told if isinstance(payload, RunStage)]

    @property
    def attempts(self) -> list[str]:
        return [payload.outcome for payload in self.told if isinstance(payload, TransportAttemptFinished)]

    async def model(self) -> QualifiedModel:
        return await self.models.qualified(None)

    async def ask(self, *messages: str, tools: Sequence[ToolSpec] = (), request: RenderedRequest | None = None, **changes: Any) -> ModelAnswer:
        asked = ModelRequest(
            model=await self.model(), rendered=request or rendered(*(messages or ("hello",)), tools=tools), call=1, offered=tuple(tools),
            quotations=messages, correction_available=True, deadline=self.clock.monotonic() + RUN_S,
        )
        return await self.broker.call(replace(asked, **changes), self.emit, self.on_text, self.on_thinking)

    async def emit(self, *payloads: Payload) -> None:
        self.told.extend(payloads)

    async def on_text(self, piece: str) -> None:
        self.texts.append(piece)

    async def on_thinking(self, piece: str) -> None:
        self.thoughts.append(piece)


@asynccontextmanager
async def bench(fake: FakeOllama, cache: Path = Path("/nonexistent"), **changes: Any) -> AsyncIterator[Bench]:
    """`changes`: of the profile."""
    clock = MovableClock()
    models = Models(Catalog("test", (profile(fake, **changes),)), clock, cache)
    try:
        yield Bench(models, clock)
    finally:
        await models.close()


# moving time -----------------------------------------------------------------------------------------------------


async def waiting(asking: Bench, fake: FakeOllama, chats: int = 1, **changes: Any) -> asyncio.Task[ModelAnswer]:
    """A call that has arrived at the provider and whose clocks are running."""
    asked = asyncio.ensure_future(asking.ask(**changes))
    await fake.asked(chats)
    await until(lambda: asking.stages[-1:] in (["evaluating_prompt"], ["cancelled_prompt"], ["answering"]))
    return asked


async def until(holds: Any) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0)


async def passes(asking: Bench, seconds: float) -> None:
    """Moves the clock, after whoever was woken has begun to wait again, and lets whoever waits notice."""
    await settled()
    asking.clock.advance(seconds)
    await settled()


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
