from dataclasses import dataclass

import pytest

from agent_builder.commands.bus import CommandBus
from agent_builder.commands.command_types import Command
from agent_builder.protocol.errors import AgentDraining, NotFound


@dataclass(frozen=True, slots=True)
class Double(Command[int]):
    number: int


@dataclass(frozen=True, slots=True)
class Fail(Command[None]):
    pass


async def double(command: Double) -> int:
    return 2 * command.number


async def fail(command: Fail) -> None:
    raise NotFound


@pytest.fixture
def bus() -> CommandBus:
    made = CommandBus()
    made.carry(Double, double)
    made.carry(Fail, fail)
    return made


async def test_a_command_reaches_its_carrier_and_gives_its_result_back(bus: CommandBus) -> None:
    assert await bus.dispatch(Double(4)) == 8


async def test_an_error_of_a_carrier_is_the_callers(bus: CommandBus) -> None:
    with pytest.raises(NotFound):
        await bus.dispatch(Fail())


def test_a_type_has_one_carrier(bus: CommandBus) -> None:
    with pytest.raises(ValueError, match="Double"):
        bus.carry(Double, double)


async def test_nothing_passes_a_closed_gate(bus: CommandBus) -> None:
    assert not bus.draining
    bus.drain()
    assert bus.draining
    with pytest.raises(AgentDraining):
        await bus.dispatch(Double(4))
