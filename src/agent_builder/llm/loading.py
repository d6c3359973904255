"""Loading a model: a request with a clock of its own, since a slow disk may need minutes and a client that goes away
makes the server give the load up.
"""

from agent_builder.llm.faults import ProviderOverflow
from agent_builder.llm.frame_reader import FrameReader
from agent_builder.llm.ollama import Loaded, OllamaClient, chat_body, load_body
from agent_builder.llm.prefill import Prefill
from agent_builder.llm.tripwire import exact_bound
from agent_builder.llm.usage import NO_USAGE, CheckedUsage
from agent_builder.protocol.errors import (
    ModelCapabilityMissing,
    ModelProtocol,
    ModelProviderError,
    ModelTransportTimeout,
    RunError,
)
from agent_builder.protocol.limits import LOAD_S
from agent_builder.protocol.model_profile import QualifiedModel
from agent_builder.protocol.ports import Clock
from agent_builder.protocol.request import START_OVERHEAD, RenderedRequest


class Load:
    """Raises RunError leaves; ModelTransportTimeout after LOAD_S."""

    def __init__(self, client: OllamaClient, prefill: Prefill, clock: Clock) -> None:
        self._client = client
        self._prefill = prefill
        self._clock = clock

    async def with_prefix(self, model: QualifiedModel, warm_up: RenderedRequest) -> CheckedUsage:
        """Lets the server read the prefix that every first Turn begins with. A server that answers it with an error may
        still load the model, which is then all that is done."""
        if await self._is_absent(model):
            self._prefill.emptied(model)
        estimate = self._prefill.estimate(model, warm_up)
        self._prefill.forget(model)
        try:
            usage = await self._answer(model, chat_body(model, warm_up, "warm_up"))
        except (ProviderOverflow, ModelCapabilityMissing, ModelProtocol, ModelProviderError):
            await self.bare(model)
            return NO_USAGE
        self._prefill.remember(model, warm_up)
        return self._prefill.observe(model, warm_up, estimate, usage)

    async def bare(self, model: QualifiedModel) -> None:
        await self._answer(model, load_body(model))

    async def _is_absent(self, model: QualifiedModel) -> bool:
        """Whether the server is sure to have kept nothing of any prompt."""
        try:
            return await self._client.loaded(model.profile) is None
        except RunError:
            return False  # a server without /api/ps does not tell

    async def _answer(self, model: QualifiedModel, body: bytes) -> CheckedUsage:
        endpoint = model.profile.endpoint
        call = self._prefill.opened(endpoint, wake=lambda: None)  # whoever asks this server meanwhile waits behind the load
        try:
            async with self._clock.timeout(LOAD_S):
                return await self._read(model, body)
        except TimeoutError:
            raise ModelTransportTimeout("The model server did not load the model in ten minutes.") from None
        finally:
            self._prefill.closed(endpoint, call)

    async def _read(self, model: QualifiedModel, body: bytes) -> CheckedUsage:
        exchange = await self._client.open_chat(model.profile, body)
        reader = FrameReader(exchange, model.profile.output_cap)
        try:
            while True:
                for frame in await reader.batch() or ():
                    if frame.done:
                        self._client.release(exchange)
                        return frame.usage or NO_USAGE
        except BaseException:
            exchange.close()
            raise


def check_window(model: QualifiedModel, loaded: Loaded) -> str | None:
    """Why the window that the server has really allocated is too small, or None."""
    if loaded.window is None or loaded.window >= model.window:
        return None
    return (
        f"The model server gives this model a window of {loaded.window} tokens where {model.window} are planned; "
        "set window_cap to no more than that, or give the server more memory."
    )


def exact_fault(rendered: RenderedRequest, observed: int, *, tools: bool) -> str | None:
    """Why the exact count of this request is disproved by what the provider reported, or None. What was learnt about the
    template counts for nothing here, since it may be that which is wrong. `tools`: of the model."""
    least = exact_bound(rendered, tools=tools)
    most = rendered.text_tokens + rendered.spare_tokens + START_OVERHEAD.of(rendered.units) + START_OVERHEAD.request
    if least <= observed <= most:
        return None
    return f"the server counted {observed} tokens where {least} to {most} were expected"
