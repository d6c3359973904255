"""ModelProfile: one catalog entry as the rest of the program sees it, and what qualification found out about it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agent_builder.protocol import limits


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds."""

    first_frame_s: float = limits.FIRST_FRAME_S
    idle_s: float = limits.IDLE_S
    silent_call_s: float = limits.SILENT_CALL_S
    call_s: float = limits.CALL_S
    queue_s: float = limits.QUEUE_S


@dataclass(frozen=True, slots=True)
class Budgets:
    """Calls, and seconds of a Run, of waiting for approvals and of a delegation."""

    model_calls: int = limits.MODEL_CALLS
    tool_calls: int = limits.TOOL_CALLS
    run_s: float = limits.RUN_S
    approval_s: float = limits.APPROVAL_S
    delegate_s: float = limits.DELEGATE_S


@dataclass(frozen=True, slots=True)
class Sampling:
    """Provider options of one kind of request; they never come from Worker, browser or request."""

    temperature: float
    seed: int = 0
    top_p: float | None = None
    top_k: int | None = None
    presence_penalty: float | None = None


PLAIN_SAMPLING = Sampling(temperature=1.0, top_p=0.95, top_k=20, presence_penalty=1.5)
TOOL_SAMPLING = Sampling(temperature=0.0)


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """A catalog entry. `think`: the value sent, None leaves it out. `slots`: prompts whose evaluated beginning the server
    keeps; from two on, requests with tools and requests without do not push each other out. Endpoint, provider_model and
    key never leave the Control Plane."""

    model_id: str
    label: str
    endpoint: str
    provider_model: str
    api_key_file: Path | None = None
    enabled: bool = True
    tools: bool = True
    think: bool | None = None
    window_cap: int = limits.WINDOW_CAP_TOKENS
    output_cap: int = limits.OUTPUT_CAP_TOKENS
    estimator: Literal["auto", "bytes"] = "auto"
    keep_alive: str = "30m"
    timeouts: Timeouts = field(default_factory=Timeouts)
    budgets: Budgets = field(default_factory=Budgets)
    streams: int = limits.STREAMS
    slots: int = 1
    text_tool_calls: Literal["strict", "off"] = "strict"
    several_calls: Literal["refuse", "in_order"] = "refuse"
    finalization: Literal["empty_toolset", "marker_only"] = "empty_toolset"
    plain_sampling: Sampling = PLAIN_SAMPLING
    tool_sampling: Sampling = TOOL_SAMPLING


@dataclass(frozen=True, slots=True)
class QualifiedModel:
    """A profile that the provider confirmed. Tokens. `digest`: of the provider's weights. `tools`: the model has the
    capability and the profile wants it. `estimator_reason`: why counts are not exact, else None."""

    profile: ModelProfile
    digest: str
    capabilities: tuple[str, ...]
    native_window: int
    window: int
    output_reserve: int
    tools: bool
    estimator: Literal["gguf-bpe-v1", "utf8-bytes-upper-bound-v1"]
    estimator_reason: str | None = None

    @property
    def model_id(self) -> str:
        return self.profile.model_id

    @property
    def input_budget(self) -> int:
        """Tokens that a request may have: the window without the output reserve."""
        return self.window - self.output_reserve
