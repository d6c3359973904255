"""What a model catalog may say: every key with its type and hard limit. Unknown keys are errors."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from agent_builder.llm.provider_http import parse_endpoint
from agent_builder.protocol import limits
from agent_builder.protocol.model_profile import (
    PLAIN_SAMPLING,
    TOOL_SAMPLING,
    Budgets,
    ModelProfile,
    Sampling,
    Timeouts,
)

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)(ms|s|m|h))+", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _text(limit: int) -> AfterValidator:
    def check(text: str) -> str:
        if not text.strip() or not text.isprintable():
            raise ValueError("must be a printable text")
        if len(text.encode()) > limit:
            raise ValueError(f"must have at most {limit} bytes")
        return text

    return AfterValidator(check)


def _endpoint(url: str) -> str:
    parse_endpoint(url)
    return url.rstrip("/")


def _keep_alive(text: str) -> str:
    if _DURATION.fullmatch(text) is None:
        raise ValueError('must be a duration such as "30m" or "1h30m"')
    if sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text)) > limits.KEEP_ALIVE_MAX_S:
        raise ValueError("must be at most 24 hours")
    return text


Wait = Annotated[float, Field(gt=0, le=limits.TIMEOUT_MAX_S)]
Chance = Annotated[float, Field(gt=0, le=1)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class TimeoutsTable(_Table):
    """Seconds."""

    first_frame_s: Wait = limits.FIRST_FRAME_S
    idle_s: Wait = limits.IDLE_S
    silent_call_s: Wait = limits.SILENT_CALL_S
    call_s: Annotated[float, Field(gt=0, le=limits.CALL_MAX_S)] = limits.CALL_S
    queue_s: Wait = limits.QUEUE_S


class BudgetsTable(_Table):
    """Calls and seconds of one Run."""

    model_calls: Annotated[int, Field(ge=1, le=limits.MODEL_CALLS_MAX)] = limits.MODEL_CALLS
    tool_calls: Annotated[int, Field(ge=0, le=limits.TOOL_CALLS_MAX)] = limits.TOOL_CALLS
    run_s: Annotated[float, Field(gt=0, le=limits.RUN_MAX_S)] = limits.RUN_S
    approval_s: Annotated[float, Field(ge=0, le=limits.APPROVAL_MAX_S)] = limits.APPROVAL_S
    delegate_s: Annotated[float, Field(gt=0, le=limits.DELEGATE_MAX_S)] = limits.DELEGATE_S


class PolicyTable(_Table):
    """Sampling of one kind of request; what is left out is not sent, except temperature and seed."""

    temperature: Annotated[float, Field(ge=0, le=2)]
    seed: Annotated[int, Field(ge=0, le=limits.TOKENS_MAX)] = 0
    top_p: Chance | None = None
    top_k: Annotated[int, Field(ge=1, le=limits.TOP_K_MAX)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None

    def sampling(self) -> Sampling:
        return Sampling(**self.model_dump())


class GenerationTable(_Table):
    """`plain`: requests without tool schemas. `tools`: requests with them."""

    plain: PolicyTable | None = None
    tools: PolicyTable | None = None


class ModelTable(_Table):
    """One `[[models]]` entry."""

    model_id: Annotated[str, _text(limits.MODEL_ID_BYTES)]
    label: Annotated[str, _text(limits.MODEL_ID_BYTES)]
    endpoint: Annotated[str, _text(limits.MODEL_ENDPOINT_BYTES), AfterValidator(_endpoint)]
    provider_model: Annotated[str, _text(limits.PROVIDER_MODEL_BYTES)]
    api_key_file: Annotated[str, _text(limits.PATH_BYTES)] | None = None
    enabled: bool = True
    tools: bool = True
    think: bool | None = None
    window_cap: Annotated[int, Field(ge=limits.WINDOW_CAP_MIN_TOKENS, le=limits.WINDOW_CAP_MAX_TOKENS)] = limits.WINDOW_CAP_TOKENS
    output_cap: Annotated[int, Field(ge=1, le=limits.OUTPUT_CAP_MAX_TOKENS)] = limits.OUTPUT_CAP_TOKENS
    estimator: Literal["auto", "bytes"] = "auto"
    keep_alive: Annotated[str, AfterValidator(_keep_alive)] = "30m"
    timeouts: TimeoutsTable = TimeoutsTable()
    budgets: BudgetsTable = BudgetsTable()
    streams: Annotated[int, Field(ge=1, le=limits.STREAMS_MAX)] = limits.STREAMS
    slots: Annotated[int, Field(ge=1, le=limits.SLOTS_MAX)] = 1
    text_tool_calls: Literal["strict", "off"] = "strict"
    several_calls: Literal["refuse", "in_order"] = "refuse"
    finalization: Literal["empty_toolset", "marker_only"] = "empty_toolset"
    generation: GenerationTable = GenerationTable()

    def profile(self, root: Path) -> ModelProfile:
        """`root`: what `api_key_file` is relative to."""
        plain, tools = self.generation.plain, self.generation.tools
        return ModelProfile(
            model_id=self.model_id, label=self.label, endpoint=self.endpoint, provider_model=self.provider_model,
            api_key_file=root / self.api_key_file if self.api_key_file else None, enabled=self.enabled, tools=self.tools,
            think=self.think, window_cap=self.window_cap, output_cap=self.output_cap, estimator=self.estimator,
            keep_alive=self.keep_alive, timeouts=Timeouts(**self.timeouts.model_dump()), budgets=Budgets(**self.budgets.model_dump()),
            streams=self.streams, slots=self.slots, text_tool_calls=self.text_tool_calls,
            several_calls=self.several_calls, finalization=self.finalization,
            plain_sampling=plain.sampling() if plain else PLAIN_SAMPLING,
            tool_sampling=tools.sampling() if tools else TOOL_SAMPLING,
        )


class CatalogTable(_Table):
    """The whole file."""

    default: str
    models: Annotated[list[ModelTable], Field(min_length=1, max_length=limits.CATALOG_MODELS)]
