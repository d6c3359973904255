"""CommandBus: from a command's type to the one function that carries it out, behind the gate that a stop closes."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from agent_builder.commands.command_types import Command
from agent_builder.protocol.errors import AgentDraining

Result = TypeVar("Result")
Asked = TypeVar("Asked", bound=Command[Any])


class CommandBus:
    """Reads do not pass here; whatever changes something does."""

    def __init__(self) -> None:
        self._carriers: dict[type[Command[Any]], Callable[[Any], Awaitable[Any]]] = {}
        self._draining = False

    @property
    def draining(self) -> bool:
        return self._draining

    def carry(self, kind: type[Asked], carrier: Callable[[Asked], Awaitable[Any]]) -> None:
        """Names the function for one type of command; a second one for the same type is a fault in the program."""
        if kind in self._carriers:
            raise ValueError(f"{kind.__name__} has a carrier already")
        self._carriers[kind] = carrier

    async def dispatch(self, command: Command[Result]) -> Result:
        """Raises AgentDraining once the gate is closed, and whatever the carrier raises."""
        if self._draining:
            raise AgentDraining("Agent Builder is stopping.")
        result: Result = await self._carriers[type(command)](command)
        return result

    def drain(self) -> None:
        """Closes the gate for good; what is under way goes on."""
        self._draining = True
