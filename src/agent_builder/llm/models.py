"""Models: every catalog entry with what was found out about it, and the one loading of the default model."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from agent_builder.llm.catalog import Catalog
from agent_builder.llm.entries import SWITCHED_OFF, Entry, PublicModel, public_model
from agent_builder.llm.health import Circuits
from agent_builder.llm.loading import Load, check_window, exact_fault
from agent_builder.llm.ollama import Loaded, OllamaClient
from agent_builder.llm.prefill import Prefill
from agent_builder.llm.qualification import Qualified, qualify
from agent_builder.llm.streams import StreamLimit
from agent_builder.llm.tokenizer import EXACT, FALLBACK, NoExactCounts, Tokenizers, byte_counter
from agent_builder.llm.tripwire import counts_cached_tokens, exact_bound, rough_bound
from agent_builder.protocol.errors import AgentBuilderError, InvalidRequest, ModelNotFound, ModelUnavailable, RunError
from agent_builder.protocol.limits import LOAD_S, LOOK_AGAIN_S, STREAMS, UNHEALTHY_PROBE_S
from agent_builder.protocol.model_profile import ModelProfile, QualifiedModel
from agent_builder.protocol.ports import Clock
from agent_builder.protocol.request import RenderedRequest, TokenCounter

log = logging.getLogger(__name__)
State = Literal["loading", "ready", "degraded"]
OnStage = Callable[[str], Awaitable[None]]
CUT_OFF = 0.5
"""Another tokenizer than the server's counts less than this part too few or too many; what is further off was cut."""

WindowFault = Callable[[QualifiedModel, TokenCounter], str | None]
"""Why a model's window is too small to be used, or None."""


class Models:
    """One per process. Raises RunError leaves; `qualify_default` with a sentence for the operator's terminal. `window_fault`
    is asked when another entry than the default is qualified."""

    def __init__(self, catalog: Catalog, clock: Clock, cache: Path, window_fault: WindowFault = lambda *_: None) -> None:
        self.client = OllamaClient(clock)
        self.circuits = Circuits(clock)
        self.prefill = Prefill(clock)
        self.default_id = catalog.default
        self.state: State = "loading"
        self._first_load = asyncio.Event()  # the default model's, however it ended
        self.streams = StreamLimit(clock, max(STREAMS, *(profile.streams for profile in catalog.models)))
        self._clock = clock
        self._entries = {profile.model_id: Entry(profile) for profile in catalog.models}
        self._tokenizers = Tokenizers(cache)
        self._window_fault = window_fault

    def profile(self, model_id: str | None) -> ModelProfile:
        """None: the default. Raises InvalidRequest for an id that the catalog does not have."""
        entry = self._entries.get(model_id or self.default_id)
        if entry is None:
            raise InvalidRequest("model_id names no model of the catalog.", reason="unknown_model")
        return entry.profile

    async def qualify_default(self) -> None:
        profile = self.profile(None)
        try:
            await self.qualified(None)
        except RunError as error:
            raise type(error)(
                f"The default model {profile.model_id!r} cannot be used: asked {profile.endpoint} for {profile.provider_model!r}. {error.message} "
                "Put the model server or config/models.toml right, or start with: ./start.sh --local-model"
            ) from None

    async def qualify_others(self) -> None:
        """Probes every other enabled entry; what fails is listed with its reason."""
        others = [entry for entry in self._entries.values() if entry.profile.enabled and entry.found is None]
        await asyncio.gather(*(self._try(entry) for entry in others))

    async def look_again(self) -> None:
        """Probes anew what was not there when it was last looked for, each entry at most once a minute. Waits a moment for
        what comes of it."""
        since = self._clock.monotonic() - UNHEALTHY_PROBE_S
        missing = [entry for entry in self._entries.values() if entry.fault is not None and not entry.disabled and entry.looked_at <= since]
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(LOOK_AGAIN_S):
                await asyncio.gather(*(self._try(entry) for entry in missing))

    async def qualified(self, model_id: str | None) -> QualifiedModel:
        """None: the default. Probes an entry that was not probed yet, changed, or has been unhealthy for a minute."""
        entry = self._entries.get(model_id or self.default_id)
        if entry is None:
            raise ModelNotFound("The catalog no longer has this model.")
        if not entry.profile.enabled:
            raise ModelUnavailable(SWITCHED_OFF)
        if entry.disabled is not None:
            raise ModelUnavailable(entry.disabled)
        if entry.found is None or entry.stale or self.circuits.unhealthy_s(entry.profile.model_id) >= UNHEALTHY_PROBE_S:
            await self._probe(entry)
        assert entry.found is not None
        return entry.found.model

    async def counter(self, model: QualifiedModel) -> TokenCounter:
        """Exact where the model tells its tokenizer, built in a thread at first use; otherwise one token per byte."""
        entry = self._entries[model.model_id]
        async with entry.lock:
            if entry.found is None or entry.found.model.estimator == FALLBACK:
                return byte_counter()
            known = self._tokenizers.loaded(entry.vocabulary) if entry.vocabulary else None
            return known or await self._build_counter(entry, entry.found)

    def public(self) -> list[PublicModel]:
        return [public_model(entry, self.default_id) for entry in self._entries.values()]

    def disable(self, model_id: str, reason: str | None) -> None:
        """Takes an entry out of use, with a sentence that is shown; None leaves it as it is."""
        self._entries[model_id].disabled = reason or self._entries[model_id].disabled

    def mark_stale(self, model_id: str) -> None:
        """The provider's model has changed or gone: it is probed again before its next Turn."""
        self._entries[model_id].stale = True

    # loading ---------------------------------------------------------------------------------------------------

    async def load(self, model: QualifiedModel, warm_up: RenderedRequest, on_stage: OnStage | None = None) -> None:
        """Loads the model with the prefix of `warm_up`, at most LOAD_S, and checks what came of it. A fault makes the
        default model's state `degraded`; it is told by `public` and raised nowhere, since a Turn may still work."""
        entry = self._entries[model.model_id]
        if entry.loading is not None:
            await entry.loading.wait()
            return
        entry.loading = asyncio.Event()
        try:
            if on_stage is not None:
                await on_stage("loading_model")
            await asyncio.gather(self._load(entry, model, warm_up), self.qualify_others())
        finally:
            entry.loading.set()
            entry.loading = None

    async def wait_until_loaded(self, model: QualifiedModel, on_wait: Callable[[], Awaitable[None]]) -> None:
        """Returns at once unless `load` is at work on this model."""
        loading = self._entries[model.model_id].loading
        if loading is not None:
            await on_wait()
            await loading.wait()

    async def until_first_load(self, model_id: str | None, on_wait: Callable[[], Awaitable[None]]) -> None:
        """Returns at once unless this is the default model and its load at start is not over: that has a clock of its own,
        which no Run pays for."""
        if model_id in (None, self.default_id) and not self._first_load.is_set():
            await on_wait()
            await self._first_load.wait()

    def could_not_load(self, fault: AgentBuilderError) -> None:
        """The load at start could not be tried; a Turn may still work."""
        self._entries[self.default_id].fault, self.state = fault, "degraded"
        self._first_load.set()

    async def reload(self, model: QualifiedModel) -> None:
        """Waits for a model that its server had to put away. The load goes on when the waiter leaves, since one that takes
        longer than a Run would otherwise be begun again by each. What goes wrong, the call itself will meet and tell."""
        entry = self._entries[model.model_id]
        if entry.reloading is None:
            entry.reloading = asyncio.ensure_future(self._reload(entry, model))
        await asyncio.shield(entry.reloading)

    def needs_no_reload(self, model: QualifiedModel) -> None:
        """The model answers: nothing is to be waited for any more."""
        if (reloading := self._entries[model.model_id].reloading) is not None:
            reloading.cancel()

    def is_ready(self, model: QualifiedModel, loaded: Loaded | None) -> bool:
        """Whether what the provider says of its memory is this model, with the window that a call asks for. For another
        window, as another client may have asked for, it loads the model anew."""
        if loaded is None:
            return False
        if loaded.digest and loaded.digest != model.digest:
            self.mark_stale(model.model_id)
        return loaded.window in (None, model.window, self._entries[model.model_id].allocated)

    def answered(self, model_id: str) -> None:
        """A first frame arrived."""
        entry = self._entries[model_id]
        self.circuits.succeeded(model_id)
        entry.fault = None
        if model_id == self.default_id and self.state == "degraded" and entry.disabled is None:
            self.state = "ready"

    def reports_cached(self, model_id: str) -> bool:
        """Whether the prompt counts of this model's server include what it had cached."""
        found = self._entries[model_id].found
        return found is not None and counts_cached_tokens(found.version)

    def can_be_true(self, model: QualifiedModel, rendered: RenderedRequest, observed: int) -> bool:
        """Whether the provider can honestly report so few prompt tokens for this request."""
        entry = self._entries[model.model_id]
        if not self.reports_cached(model.model_id):
            return True
        fixed = entry.prefix[1] if entry.prefix and rendered.prefix_digests[:2] == entry.prefix[0] else 0
        if observed < rough_bound(rendered, fixed, tools=model.tools):
            return False
        if not rendered.exact:
            return True
        least = exact_bound(rendered, tools=model.tools)
        if observed < CUT_OFF * least:
            return False
        return not self._prove(entry, model, rendered, observed) or observed >= least

    async def close(self) -> None:
        reloading = [entry.reloading for entry in self._entries.values() if entry.reloading is not None]
        for task in reloading:
            task.cancel()
        await asyncio.gather(*reloading, return_exceptions=True)
        self.client.close()

    async def _load(self, entry: Entry, model: QualifiedModel, warm_up: RenderedRequest) -> None:
        try:
            async with self.streams.stream(model.model_id, model.profile.streams, LOAD_S):
                usage = await Load(self.client, self.prefill, self._clock).with_prefix(model, warm_up)
            entry.fault = None
            await self._check_loaded(entry, model)
            if usage.complete and entry.found is not None and counts_cached_tokens(entry.found.version):
                entry.prefix = warm_up.prefix_digests[:2], usage.input
                if warm_up.exact:
                    self._prove(entry, model, warm_up, usage.input)
        except RunError as error:
            entry.fault = error
        if model.model_id == self.default_id:
            self.state = "degraded" if entry.fault or entry.disabled else "ready"
            self._first_load.set()

    async def _reload(self, entry: Entry, model: QualifiedModel) -> None:
        try:
            await Load(self.client, self.prefill, self._clock).bare(model)
            await self._check_loaded(entry, model)
        except RunError as error:
            log.info("a model that was put away is not loaded again: %s", error.code)
        finally:
            entry.reloading = None

    async def _check_loaded(self, entry: Entry, model: QualifiedModel) -> None:
        """Once for these weights: later the window that is seen may be one that another client has just asked for."""
        if entry.allocated is not None:
            return
        try:
            loaded = await self.client.loaded(model.profile)
        except RunError:
            return  # a server without /api/ps tells nothing about its windows
        if loaded is not None:
            entry.allocated = loaded.window
            self.disable(model.model_id, check_window(model, loaded))

    # probing ---------------------------------------------------------------------------------------------------

    async def _try(self, entry: Entry) -> None:
        entry.looked_at = self._clock.monotonic()
        try:
            await self._probe(entry)
            await self._check_window(entry)
        except RunError as error:
            entry.fault = error

    async def _check_window(self, entry: Entry) -> None:
        """Byte counts come first: they bound the exact ones, and need no vocabulary."""
        assert entry.found is not None
        model = entry.found.model
        fault = await asyncio.to_thread(self._window_fault, model, byte_counter())
        if fault is not None and model.estimator == EXACT:
            fault = await asyncio.to_thread(self._window_fault, model, await self.counter(model))
        self.disable(model.model_id, fault)

    async def _probe(self, entry: Entry) -> None:
        async with entry.lock:
            try:
                found = await qualify(self.client, entry.profile)
            except RunError as error:
                entry.found, entry.fault = None, error
                raise
            same = entry.found is not None and entry.found.model.digest == found.model.digest
            if same and entry.found is not None and entry.found.model.estimator == FALLBACK:
                found = replace(found, model=entry.found.model)  # exact counts were tried with these weights and failed
            if not same:
                entry.vocabulary = entry.prefix = entry.disabled = entry.allocated = None
                entry.proven = False
            entry.found, entry.fault, entry.stale = found, None, False

    async def _build_counter(self, entry: Entry, found: Qualified) -> TokenCounter:
        try:
            entry.vocabulary, counter = await self._tokenizers.counter(
                found.model.digest, lambda: self.client.show(entry.profile, verbose=True)
            )
        except NoExactCounts as error:
            self._fall_back(entry, str(error))
            return byte_counter()
        return counter

    def _prove(self, entry: Entry, model: QualifiedModel, rendered: RenderedRequest, observed: int) -> bool:
        """The first count that is reported for these weights proves the exact counts; one that disproves them lets bytes be
        counted from the next Turn on."""
        if not entry.proven:
            fault = exact_fault(rendered, observed, tools=model.tools)
            entry.proven = fault is None
            if fault is not None:
                self._fall_back(entry, fault)
        return entry.proven

    def _fall_back(self, entry: Entry, reason: str) -> None:
        if entry.found is not None and entry.found.model.estimator == EXACT:
            entry.found = replace(entry.found, model=replace(entry.found.model, estimator=FALLBACK, estimator_reason=reason))
