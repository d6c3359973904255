"""EffectiveToolSet: the Tools that one Run may use."""

from dataclasses import dataclass

from agent_builder.protocol.digest import digest_of
from agent_builder.protocol.model_profile import QualifiedModel
from agent_builder.protocol.toolspec import DENY, ToolCatalog, ToolSpec


@dataclass(frozen=True, slots=True)
class EffectiveToolSet:
    """`specs` in catalog order; empty for a model without tools. `toolset_id` is the digest in the shape of an id."""

    toolset_id: str
    digest: str
    specs: tuple[ToolSpec, ...]

    @property
    def schemas(self) -> tuple[dict[str, object], ...]:
        """The `tools` of a provider request."""
        return tuple(spec.provider_schema() for spec in self.specs)


def resolve_toolset(catalog: ToolCatalog, model: QualifiedModel, *, budget: int, present: frozenset[str] = frozenset()) -> EffectiveToolSet:
    """What may be offered to `model` in a Run with `budget` tool calls. `present`: ids of the optional Tools that the Agent has."""
    usable = model.tools and budget > 0
    return toolset_of(tuple(spec for spec in catalog.specs if usable and _may_be_offered(spec, present)))


def _may_be_offered(spec: ToolSpec, present: frozenset[str]) -> bool:
    return spec.offered and spec.policy != DENY and (not spec.optional or spec.id in present)


def toolset_of(specs: tuple[ToolSpec, ...]) -> EffectiveToolSet:
    digest = digest_of([spec.digest for spec in specs])
    return EffectiveToolSet(toolset_id=id_from(digest), digest=digest, specs=specs)


def id_from(digest: str) -> str:
    """The first half of a digest, spelled like an id: the same content always has the same name."""
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
