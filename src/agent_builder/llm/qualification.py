"""Qualification: what a provider says about one catalog entry, and whether that is enough."""

from dataclasses import dataclass

from agent_builder.llm.ollama import Json, OllamaClient
from agent_builder.llm.tokenizer import EXACT, FALLBACK, vocabulary_fault
from agent_builder.protocol.digest import digest_of
from agent_builder.protocol.errors import ModelCapabilityMissing, ModelProtocol, RunError
from agent_builder.protocol.limits import OUTPUT_RESERVE_MIN_TOKENS, TOKENS_MAX
from agent_builder.protocol.model_profile import ModelProfile, QualifiedModel


@dataclass(frozen=True, slots=True)
class Qualified:
    """`version`: of the provider, "" where it does not tell. `model_info` as the provider sent it."""

    model: QualifiedModel
    version: str
    model_info: Json


async def qualify(client: OllamaClient, profile: ModelProfile) -> Qualified:
    """Raises ModelCapabilityMissing, ModelProtocol, or what the client raises."""
    show = await client.show(profile)
    _refuse_remote(profile, show)
    capabilities = _capabilities(profile, show)
    found = show.get("model_info")
    info: Json = found if isinstance(found, dict) else {}
    native = native_window(info)
    window = min(native, profile.window_cap)
    reason = "the catalog asks for byte counts" if profile.estimator == "bytes" else vocabulary_fault(info)
    digest = await client.installed_digest(profile) or digest_of([show.get("modified_at"), show.get("details"), show.get("template")])
    model = QualifiedModel(
        profile=profile, digest=digest, capabilities=capabilities, native_window=native, window=window,
        output_reserve=output_reserve(window, profile.output_cap), tools=profile.tools and "tools" in capabilities,
        estimator=FALLBACK if reason else EXACT, estimator_reason=reason,
    )
    return Qualified(model, await _version(client, profile), info)


def output_reserve(window: int, output_cap: int) -> int:
    """Tokens kept free for the answer: an eighth of the window, at least 1024, never over half of it or over the cap."""
    return min(output_cap, max(OUTPUT_RESERVE_MIN_TOKENS, window // 8), window // 2)


def native_window(info: Json) -> int:
    """The trained window, by the architecture's own key. Raises ModelProtocol where there is no believable one."""
    architecture = info.get("general.architecture")
    value = info.get(f"{architecture}.context_length")
    if value is None:
        lengths = [found for key, found in info.items() if key.endswith(".context_length")]
        value = lengths[0] if len(lengths) == 1 else None
    if type(value) is not int or not OUTPUT_RESERVE_MIN_TOKENS <= value <= TOKENS_MAX:
        raise ModelProtocol("The model server does not say how large the model's window is.")
    return value


def _capabilities(profile: ModelProfile, show: Json) -> tuple[str, ...]:
    """A server too old to tell them is believed to have what the entry asks for; a missing one shows itself at once."""
    told = show.get("capabilities")
    if not isinstance(told, list):
        return ("completion", "tools") if profile.tools else ("completion",)
    capabilities = tuple(item for item in told if isinstance(item, str))
    wanted = {"completion": True, "tools": profile.tools, "thinking": profile.think is True}
    for name, needed in wanted.items():
        if needed and name not in capabilities:
            raise ModelCapabilityMissing(f"The model lacks the capability {name!r}, which its catalog entry asks for.")
    return capabilities


def _refuse_remote(profile: ModelProfile, show: Json) -> None:
    tag = profile.provider_model.rpartition(":")[2]
    if show.get("remote_host") or show.get("remote_model") or tag == "cloud" or tag.endswith("-cloud"):
        raise ModelCapabilityMissing("This model would send every prompt to another machine; only local models can be used.")


async def _version(client: OllamaClient, profile: ModelProfile) -> str:
    try:
        return await client.version(profile)
    except RunError:
        return ""  # the version only tells which metrics to trust
