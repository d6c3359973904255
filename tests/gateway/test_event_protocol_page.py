"""docs/event-protocol.md says what protocol/events.py says."""

import re
from pathlib import Path
from typing import get_args

from agent_builder.protocol.errors import RunError, leaf_classes
from agent_builder.protocol.events import PAYLOADS, TERMINAL_TYPES, Control, RunCompleted, RunStage, Stage
from agent_builder.protocol.limits import (
    EPHEMERAL_BETWEEN_DURABLE,
    JOURNAL_RUNS_KEPT,
    LIVE_RUNS_KEPT,
    RECOVERY_SEQ_STEP,
    REPLAY_PAGE,
    SSE_BLOCKED_S,
    SSE_HEARTBEAT_S,
    SSE_RUNS,
    SUBSCRIBERS,
    SUBSCRIBERS_PER_RUN,
    TERMINAL_RETRY_S,
)

PAGE = (Path(__file__).parents[2] / "docs/event-protocol.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading."""
    part = PAGE.split(f"{heading}\n", 1)[1]
    table = re.search(r"(?:^\|.*\n)+", part, re.MULTILINE)
    assert table is not None
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[0].splitlines()[2:]]


def test_the_table_of_events_is_the_list_of_payloads() -> None:
    written = {kind.strip("| `"): (durable, ends, payload.strip("| `")) for kind, durable, ends, payload in rows("## Events")}
    assert written == {
        payload.type: (
            "yes" if payload.durable else "no", "yes" if payload.terminal else "no",
            ", ".join(name if field.is_required() else f"{name}?" for name, field in payload.model_fields.items()),
        )
        for payload in PAYLOADS
    }


def test_the_table_of_ends_has_every_terminal_reason_and_code() -> None:
    ends = [(terminal.strip("`"), why.strip("`")) for _, terminal, why, _ in rows("## Every way in which a Run ends")]
    reasons = get_args(RunCompleted.model_fields["reason"].annotation)
    assert {why for terminal, why in ends if terminal == "run.completed"} == set(reasons)
    codes = {code for code, leaf in leaf_classes().items() if issubclass(leaf, RunError)}
    failures = [why for terminal, why in ends if terminal == "run.failed"]
    assert (set(failures), len(failures)) == (codes, len(codes))
    assert {terminal for terminal, _ in ends if terminal.startswith("run.")} == TERMINAL_TYPES


def test_the_table_of_controls_is_the_list_of_kinds() -> None:
    written = [kind.strip("| `") for kind, _ in rows("### Controls")]
    assert written == list(get_args(Control.model_fields["kind"].annotation))


def test_every_stage_is_named() -> None:
    assert RunStage.model_fields["stage"].annotation == Stage
    line = next(line for line in PAGE.splitlines() if line.startswith("- **Stages**"))
    assert re.findall(r"`(\w+)`", line.partition(":")[2]) == list(get_args(Stage))


def test_the_numbers_are_those_of_the_code() -> None:
    for text in (
        f"At most {EPHEMERAL_BETWEEN_DURABLE:,} ephemeral", f"last durable seq + {RECOVERY_SEQ_STEP:,}", f"A comment every {SSE_HEARTBEAT_S} seconds",
        f"more than {LIVE_RUNS_KEPT} newer ones", f"older than the {JOURNAL_RUNS_KEPT} kept ones", f"At most {SUBSCRIBERS_PER_RUN} subscribers per Run",
        f"and {SUBSCRIBERS} in all", f"blocks for {SSE_BLOCKED_S} seconds", f"(at most {SSE_RUNS} times)", f"at most {REPLAY_PAGE}.",
        f"every {TERMINAL_RETRY_S} seconds with the same event",
    ):
        assert text in " ".join(PAGE.split()), text
