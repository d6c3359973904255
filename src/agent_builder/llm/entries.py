"""One entry of the catalog: what was found out about it, and what of that a browser may know."""

import asyncio
from dataclasses import dataclass, field
from typing import Literal

from agent_builder.llm.qualification import Qualified
from agent_builder.protocol.errors import AgentBuilderError
from agent_builder.protocol.model_profile import ModelProfile

ModelOff = Literal["switched_off", "window_too_small"]
"""Why an entry is not used although its model server may be well."""

SWITCHED_OFF = "This model is switched off in the catalog."


@dataclass(slots=True)
class Entry:
    profile: ModelProfile
    found: Qualified | None = None
    fault: AgentBuilderError | None = None  # why the last probe or loading failed
    disabled: str | None = None  # why the entry must not be used although the provider would
    looked_at: float = 0.0  # monotonic: the last look that no Turn had asked for
    stale: bool = False
    allocated: int | None = None  # window in tokens that the provider gave this model when it was last loaded
    proven: bool = False  # exact counts were compared with what the provider reported
    vocabulary: str | None = None
    prefix: tuple[tuple[str, ...], int] | None = None  # digests of tools and system message, and their reported tokens
    loading: asyncio.Event | None = None
    reloading: asyncio.Task[None] | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True)
class PublicModel:
    """What a browser may know of an entry. `reason`: why it is not available, `reason_code` the same as an error code or a
    ModelOff. `window` in tokens, the cap until it was qualified. `estimator` and `estimator_reason`: how its tokens are
    counted, and why not exactly."""

    model_id: str
    label: str
    capabilities: tuple[str, ...]
    window: int
    output_cap: int
    available: bool
    reason: str | None
    default: bool
    estimator: str | None = None
    estimator_reason: str | None = None
    reason_code: str | None = None


def public_model(entry: Entry, default_id: str) -> PublicModel:
    profile, model = entry.profile, entry.found.model if entry.found else None
    reason, code = _why_not(entry)
    return PublicModel(
        profile.model_id, profile.label, model.capabilities if model else (), model.window if model else profile.window_cap,
        profile.output_cap, reason is None, reason, profile.model_id == default_id,
        model.estimator if model else None, model.estimator_reason if model else None, code,
    )


def _why_not(entry: Entry) -> tuple[str, str] | tuple[None, None]:
    """The sentence and its code, or nothing for an entry that can be used."""
    if not entry.profile.enabled:
        return SWITCHED_OFF, "switched_off"
    if entry.disabled:
        return entry.disabled, "window_too_small"
    return (entry.fault.message, entry.fault.code) if entry.fault else (None, None)
