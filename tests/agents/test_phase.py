from itertools import product

import pytest

from agent_builder.agents.phase import Facts, Phase, derive_phase
from agent_builder.storage.registry import AgentState

# state, data, environment, damaged, active Runs -> phase; None stands for any value
TABLE = [
    ("creating", None, None, None, None, "creating"),
    ("upgrading", None, None, None, False, "upgrading"),
    ("upgrading", None, None, None, True, "draining"),
    ("deleting", None, None, None, False, "deleting"),
    ("deleting", None, None, None, True, "draining"),
    ("active", False, None, None, None, "damaged"),
    ("active", True, None, True, None, "damaged"),
    ("active", True, False, False, None, "incomplete"),
    ("active", True, True, False, False, "ready"),
    ("active", True, True, False, True, "running"),
]
COMBINATIONS = [*product([*AgentState], (False, True), (False, True), (False, True), (0, 1, 4))]


def rows_for(state: str, data: bool, environment: bool, damaged: bool, runs: int) -> list[str]:
    facts = (state, data, environment, damaged, bool(runs))
    return [row[-1] for row in TABLE if all(cell is None or cell == fact for cell, fact in zip(row, facts, strict=False))]


@pytest.mark.parametrize("facts", COMBINATIONS)
def test_every_combination_of_facts_has_the_phase_of_its_one_row(facts: tuple[AgentState, bool, bool, bool, int]) -> None:
    assert rows_for(*facts) == [derive_phase(Facts(*facts))]


def test_every_row_and_every_phase_is_reached() -> None:
    assert {phase for facts in COMBINATIONS for phase in rows_for(*facts)} == {row[-1] for row in TABLE} == {*Phase}
