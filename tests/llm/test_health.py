"""The circuit of a model."""

import pytest

from agent_builder.llm.health import Circuits
from agent_builder.protocol.errors import ModelTemporarilyUnhealthy
from agent_builder.protocol.limits import CATALOG_MODELS, CIRCUIT_OPEN_S
from tests.support.clock import MovableClock


def opened(circuits: Circuits, model: str = "m") -> bool:
    try:
        circuits.check(model)
    except ModelTemporarilyUnhealthy:
        return True
    return False


def test_two_failures_in_a_row_open_it_for_half_a_minute() -> None:
    clock = MovableClock()
    circuits = Circuits(clock)
    circuits.failed("m")
    assert not opened(circuits)
    circuits.failed("m")
    assert opened(circuits)
    assert not opened(circuits, "other")
    clock.advance(CIRCUIT_OPEN_S)
    assert not opened(circuits)
    circuits.failed("m")
    assert not opened(circuits)
    circuits.failed("m")
    assert opened(circuits)


def test_a_first_frame_closes_it_and_breaks_the_row() -> None:
    circuits = Circuits(MovableClock())
    for _ in range(3):
        circuits.failed("m")
        circuits.succeeded("m")
    assert not opened(circuits)
    circuits.failed("m")
    circuits.failed("m")
    circuits.succeeded("m")
    assert not opened(circuits)


def test_it_remembers_how_long_a_model_has_been_silent() -> None:
    clock = MovableClock()
    circuits = Circuits(clock)
    assert circuits.unhealthy_s("m") == 0
    circuits.failed("m")
    clock.advance(45)
    circuits.failed("m")
    assert circuits.unhealthy_s("m") == pytest.approx(45, abs=1)
    circuits.succeeded("m")
    assert circuits.unhealthy_s("m") == 0


def test_the_table_has_a_bound() -> None:
    circuits = Circuits(MovableClock())
    for number in range(CATALOG_MODELS + 1):
        for _ in range(2):
            circuits.failed(f"m{number}")
    assert [opened(circuits, f"m{number}") for number in range(CATALOG_MODELS + 1)] == [False] + [True] * CATALOG_MODELS
