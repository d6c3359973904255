"""ToolSpec: what a Tool is called, what it takes, and which policy it is under. Standard library only: the Worker loads it.

The argument schema is a small part of JSON Schema: an object with typed properties (string, integer, boolean), `required`,
no further keys; strings may have `maxBytes` (UTF-8), integers `minimum` and `maximum`. `validate` enforces all of it.
"""

from collections.abc import Mapping
from typing import NamedTuple

from agent_builder.protocol.digest import canonical_json, digest_of
from agent_builder.protocol.limits import TOOL_ARGUMENT_BYTES

ALLOW, ASK, DENY = "allow", "ask", "deny"
NOTHING, FILE, PROCESS, AGENT = "nothing", "file", "process", "agent"

_TYPES: dict[str, type] = {"string": str, "integer": int, "boolean": bool}


class ToolSpec(NamedTuple):
    """`policy`: allow, ask or deny. `effects`: what it changes or starts: nothing, file, process or agent. `local`: the Worker runs it
    itself. `offered`: may be offered to a new Run. `optional`: only where the Agent has what it works with. `result_bytes`: the most text
    of one result that the model sees."""

    id: str
    version: int
    description: str
    properties: Mapping[str, Mapping[str, object]]
    required: tuple[str, ...]
    policy: str
    result_bytes: int
    effects: str = NOTHING
    local: bool = False
    offered: bool = True
    optional: bool = False

    @property
    def provider_name(self) -> str:
        """The name a provider sees: the one mapping of the slash."""
        return self.id.replace("/", "_")

    @property
    def digest(self) -> str:
        return digest_of([
            self.id, self.version, self.description, self.properties, list(self.required), self.policy, self.result_bytes, self.effects,
            self.local, self.offered, self.optional,
        ])

    def provider_schema(self) -> dict[str, object]:
        """The `tools` element of a provider request, without the keys that providers drop."""
        kept = {name: {k: v for k, v in rule.items() if k in ("type", "description", "enum")} for name, rule in self.properties.items()}
        return {
            "type": "function",
            "function": {
                "name": self.provider_name,
                "description": self.description,
                "parameters": {"type": "object", "properties": kept, "required": list(self.required)},
            },
        }

    @property
    def takes(self) -> str:
        """Its arguments by name, for a model that got them wrong."""
        return ", ".join(name if name in self.required else f"{name} (optional)" for name in self.properties)

    def fault(self, arguments: object) -> str | None:
        """The first thing wrong with `arguments` in a few words, or None when they satisfy the schema."""
        if not isinstance(arguments, dict):
            return "arguments must be an object"
        for name in self.required:
            if name not in arguments:
                return f"{name} is missing"
        for name, value in arguments.items():
            rule = self.properties.get(name)
            if rule is None:
                return f"{str(name)[:40]!r} is not an argument"
            wrong = _value_fault(rule, value)
            if wrong:
                return f"{name} {wrong}"
        if _too_large(arguments):
            return "arguments are too large"
        return None


def _value_fault(rule: Mapping[str, object], value: object) -> str | None:
    kind = _TYPES[str(rule["type"])]
    if type(value) is not kind:
        return f"must be of type {rule['type']}"
    if isinstance(value, str):
        return _text_fault(rule, value)
    for bound, wrong in (("minimum", "is too small"), ("maximum", "is too large")):
        limit = rule.get(bound)
        if isinstance(limit, int) and isinstance(value, int) and (value < limit if bound == "minimum" else value > limit):
            return f"{wrong} (limit {limit})"
    return None


def _text_fault(rule: Mapping[str, object], value: str) -> str | None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode"
    limit = rule.get("maxBytes")
    if isinstance(limit, int) and size > limit:
        return f"is longer than {limit} bytes"
    allowed = rule.get("enum")
    if isinstance(allowed, (list, tuple)) and value not in allowed:
        return "is not one of the allowed values"
    return None


def _too_large(arguments: dict[str, object]) -> bool:
    return len(canonical_json(arguments)) > TOOL_ARGUMENT_BYTES


class ToolCatalog:
    """The sealed set of ToolSpecs: order fixed, looked up by id or provider name."""

    def __init__(self, specs: tuple[ToolSpec, ...]) -> None:
        self.specs = specs
        self._by_id = {spec.id: spec for spec in specs}
        self._by_name = {spec.provider_name: spec for spec in specs}
        if not len(specs) == len(self._by_id) == len(self._by_name):
            raise ValueError("two tools share a name")
        self.digest = digest_of([spec.digest for spec in specs])

    def get(self, tool_id: str) -> ToolSpec | None:
        return self._by_id.get(tool_id)

    def by_provider_name(self, name: str) -> ToolSpec | None:
        """The spec for a provider name; the canonical id is accepted too, since models copy either."""
        return self._by_name.get(name) or self._by_id.get(name)
