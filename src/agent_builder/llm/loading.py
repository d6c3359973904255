"""Loading a model: a request with a clock of its own, since a slow disk may need minutes and a client that goes away
makes the server give the load up.
"""

import asyncio

from agent_builder.llm.faults import ProviderOverflow
from agent_builder.llm.frame_reader import FrameReader
from agent_builder.llm.ollama import Loaded, OllamaClient, chat_body, load_body
from agent_builder.llm.prefill import Prefill
from agent_builder.llm.usage import NO_USAGE, CheckedUsage
from agent_builder.protocol.errors import (
    ModelCapabilityMissing,
    ModelProtocol,
    ModelProviderError,
    ModelTransportTimeout,
)
from agent_builder.protocol.limits import LOAD_S, SEAM_TOKENS
from agent_builder.protocol.model_profile import QualifiedModel
from agent_builder.protocol.ports import Clock
from agent_builder.protocol.request import RenderedRequest


class Load:
    """Raises RunError leaves; ModelTransportTimeout after LOAD_S."""

    def __init__(self, client: OllamaClient, prefill: Prefill, clock: Clock) -> None:
        self._client = client
        self._prefill = prefill
        self._clock = clock

    async def with_prefix(self, model: QualifiedModel, warm_up: RenderedRequest) -> CheckedUsage:
        """Lets the server read the prefix that every first Turn begins with. A server that answers it with an error may
        still load the model, which is then all that is done."""
        estimate = self._prefill.estimate(model, warm_up)
        try:
            usage = await self._answer(model, chat_body(model, warm_up, warm_up=True))
        except (ProviderOverflow, ModelCapabilityMissing, ModelProtocol, ModelProviderError):
            await self.bare(model)
            return NO_USAGE
        self._prefill.remember(model, warm_up)
        return self._prefill.observe(model, warm_up, estimate, usage)

    async def bare(self, model: QualifiedModel) -> None:
        await self._answer(model, load_body(model))

    async def _answer(self, model: QualifiedModel, body: bytes) -> CheckedUsage:
        try:
            async with self._clock.timeout(LOAD_S):
                return await self._read(model, body)
        except TimeoutError:
            raise ModelTransportTimeout("The model server did not load the model in ten minutes.") from None

    async def _read(self, model: QualifiedModel, body: bytes) -> CheckedUsage:
        exchange = await self._client.open_chat(model.profile, body)
        reader = FrameReader(exchange, model.profile.output_cap)
        try:
            while True:
                for frame in await reader.batch() or ():
                    if frame.done:
                        self._client.release(exchange)
                        return frame.usage or NO_USAGE
        except BaseException as error:
            exchange.close()
            if isinstance(error, asyncio.CancelledError):
                self._prefill.forget_model(model)
            raise


def check_window(model: QualifiedModel, loaded: Loaded) -> str | None:
    """Why the window that the server has really allocated is too small, or None."""
    if loaded.window is None or loaded.window >= model.window:
        return None
    return (
        f"The model server gives this model a window of {loaded.window} tokens where {model.window} are planned; "
        "set window_cap to no more than that, or give the server more memory."
    )


def exact_fault(warm_up: RenderedRequest, observed: int) -> str | None:
    """Why the exact count of the load request is disproved by what the provider reported, or None."""
    if not warm_up.exact:
        return None
    schemas = warm_up.prefix_tokens[0] if warm_up.prefix_tokens else 0
    least = warm_up.text_tokens - (schemas + 1) // 2 - SEAM_TOKENS * len(warm_up.messages)
    if least <= observed <= warm_up.admission_tokens:
        return None
    return f"the server counted {observed} tokens where {least} to {warm_up.admission_tokens} were expected"
