"""Slash commands: their names, aliases, help and arguments, and how a line is read. None of it ever reaches a model."""

import difflib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from agent_builder.commands.command_types import Said, SlashOutcome
from agent_builder.commands.said import outcome, said
from agent_builder.protocol.errors import InvalidRequest
from agent_builder.protocol.limits import NEAREST_NAMES

Scene = TypeVar("Scene")


@dataclass(frozen=True, slots=True)
class SlashCommand(Generic[Scene]):
    """`argument`: the name of the one optional word, with its JSON Schema; None when the command takes none."""

    name: str
    aliases: tuple[str, ...]
    help: str
    run: Callable[[Scene, str | None], Awaitable[SlashOutcome]]
    argument: str | None = None
    schema: tuple[tuple[str, str], ...] = ()

    @property
    def usage(self) -> str:
        return f"/{self.name} [{self.argument}]" if self.argument else f"/{self.name}"

    def arguments(self) -> dict[str, object]:
        """A JSON Schema object of what may stand behind the name."""
        properties = {self.argument: dict(self.schema)} if self.argument else {}
        return {"type": "object", "properties": properties, "required": [], "additionalProperties": False}


class SlashRegistry(Generic[Scene]):
    """All slash commands in the order in which they are shown."""

    def __init__(self, commands: Sequence[SlashCommand[Scene]]) -> None:
        self.commands = tuple(commands)
        self._by_name = {name: command for command in commands for name in (command.name, *command.aliases)}
        if len(self._by_name) != sum(1 + len(command.aliases) for command in commands):
            raise ValueError("two slash commands share a name")

    async def run(self, line: str, scene: Scene) -> SlashOutcome:
        """Carries out one line. Raises InvalidRequest when it is no command at all; an unknown name or a wrong argument is
        answered in words."""
        if not line.startswith("/"):
            raise InvalidRequest("A command begins with /.", field="input")
        words = line[1:].split()
        command = self._by_name.get(words[0].lower()) if words else None
        if command is None:
            return self._unknown(words[0] if words else "")
        if len(words) > (2 if command.argument else 1):
            return outcome(said("usage", usage=command.usage), Said(f"help_{command.name}", {}, command.help))
        return await command.run(scene, words[1] if len(words) > 1 else None)

    def nearest(self, name: str) -> list[str]:
        """The names that look most like `name`, best first; all canonical names when none does."""
        close = difflib.get_close_matches(name.lower(), self._by_name, NEAREST_NAMES, 0.4)
        return [f"/{near}" for near in close] or [f"/{command.name}" for command in self.commands]

    def _unknown(self, name: str) -> SlashOutcome:
        return outcome(said("unknown", name=name, nearest=", ".join(self.nearest(name))))
