"""The page has words, in each of its languages, for every word of a closed list that the server can say."""

import json
import re
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from agent_builder.agents.phase import Phase
from agent_builder.agents.research_envs import ResearchState
from agent_builder.capsule.research_install import FaultCode
from agent_builder.commands.said import SENTENCES
from agent_builder.commands.slash_commands import SLASH_COMMANDS
from agent_builder.context.projection import Reason as MeterReason
from agent_builder.gateway.answers import HealthAnswer, PreparationAnswer, ResearchProgressAnswer, TaskAnswer, TurnState
from agent_builder.llm.entries import ModelOff
from agent_builder.llm.models import State as ModelState
from agent_builder.protocol.errors import AgentBuilderError, leaf_classes
from agent_builder.protocol.events import PAYLOADS, Control, Outcome, PermissionResolved, RunCompleted, Stage
from agent_builder.tools.document_answer import Code

PROJECT = Path(__file__).parents[1]
DUMP = """
const { LOCALES } = await import("./web/js/i18n/index.js");
console.log(JSON.stringify(Object.fromEntries(Object.entries(LOCALES).map(([id, { words }]) => [id, words]))));
"""
WORKING = ("ready", "running", "incomplete")
"""Phases in which an Agent can be used: nothing stands above the composer."""


@pytest.fixture(scope="module")
def catalogs() -> dict[str, dict[str, object]]:
    done = subprocess.run(["node", "--input-type=module", "-e", DUMP], cwd=PROJECT, capture_output=True, text=True, check=True)
    found: dict[str, dict[str, object]] = json.loads(done.stdout)
    return found


def _without_words(catalogs: dict[str, dict[str, object]], keys: list[str]) -> list[str]:
    assert keys
    return [f"{locale}: {key}" for locale, words in catalogs.items() for key in keys if key not in words]


def _written(folder: str, pattern: str) -> set[str]:
    """What the sources of a room say as a literal."""
    return {word for path in (PROJECT / "src/agent_builder" / folder).rglob("*.py") for word in re.findall(pattern, path.read_text())}


def _values(answer: type, name: str) -> tuple[str, ...]:
    return get_args(answer.model_fields[name].annotation)  # type: ignore[attr-defined]


def test_there_are_two_languages(catalogs: dict[str, dict[str, object]]) -> None:
    assert set(catalogs) == {"en", "zh-CN"}


def test_every_error_code_has_a_sentence(catalogs: dict[str, dict[str, object]]) -> None:
    codes = set(leaf_classes())
    listed = set(re.findall(r"^\| `([a-z_]+)` \|", (PROJECT / "docs/error-codes.md").read_text(), re.MULTILINE))
    assert codes == listed
    assert AgentBuilderError.code in codes
    assert _without_words(catalogs, [f"error.{code}" for code in sorted(codes)]) == []


@pytest.mark.parametrize("of", ["stage.", "ended.while_"])
def test_every_stage_has_a_name(catalogs: dict[str, dict[str, object]], of: str) -> None:
    assert _without_words(catalogs, [f"{of}{stage}" for stage in get_args(Stage)]) == []


def test_every_outcome_decision_and_recovery_has_a_name(catalogs: dict[str, dict[str, object]]) -> None:
    outcomes = [f"outcome.{word}" for word in get_args(Outcome)]
    decisions = [f"timeline.decided_{word}" for word in get_args(PermissionResolved.model_fields["decision"].annotation)]
    recoveries = [f"recovery.{word}" for word in _written("runs", r'ModelRecoveryStarted\([^)]*reason="([a-z_]+)"')]
    assert _without_words(catalogs, outcomes + decisions + recoveries) == []


def test_every_reason_of_an_end_but_the_ordinary_one_has_a_sentence(catalogs: dict[str, dict[str, object]]) -> None:
    reasons = get_args(RunCompleted.model_fields["reason"].annotation)
    assert _without_words(catalogs, [f"reason.{word}" for word in reasons if word != "stop"]) == []


def test_every_event_that_the_page_names_by_its_type_is_one(catalogs: dict[str, dict[str, object]]) -> None:
    kinds = {payload.type for payload in PAYLOADS} | {f"control.{kind}" for kind in get_args(Control.model_fields["kind"].annotation)}
    for words in catalogs.values():
        named = {key.removeprefix("timeline.") for key in words if re.fullmatch(r"timeline\.[a-z]+\.[a-z.]+", key)}
        assert named
        assert named <= kinds


def test_the_timeline_draws_every_event() -> None:
    drawn = set(re.findall(r'^  "([a-z.]+)": \[', (PROJECT / "web/js/state/timeline.js").read_text(), re.MULTILINE))
    assert {payload.type for payload in PAYLOADS} <= drawn


@pytest.mark.parametrize("of", ["meter.reason_", "meter.short_"])
def test_every_reason_against_a_projection_has_a_sentence(catalogs: dict[str, dict[str, object]], of: str) -> None:
    assert _without_words(catalogs, [f"{of}{word}" for word in get_args(MeterReason)]) == []


def test_every_phase_of_an_agent_has_a_name_and_a_note_where_it_cannot_be_used(catalogs: dict[str, dict[str, object]]) -> None:
    assert _without_words(catalogs, [f"phase.{phase}" for phase in Phase]) == []
    assert _without_words(catalogs, [f"phase_note.{phase}" for phase in Phase if phase not in WORKING]) == []


def test_every_state_of_the_server_a_turn_and_its_preparation_has_a_name(catalogs: dict[str, dict[str, object]]) -> None:
    turns = [f"state.{word}" for word in get_args(TurnState)]
    server = [f"server.{word}" for word in _values(HealthAnswer, "status")] + [f"model_state.{word}" for word in get_args(ModelState)]
    preparation = [f"preparation.{word}" for word in _values(PreparationAnswer, "state")]
    assert _without_words(catalogs, turns + server + preparation) == []


def test_every_state_step_and_failure_of_a_research_environment_has_words(catalogs: dict[str, dict[str, object]]) -> None:
    states = [f"research.state_{state}" for state in ResearchState if state is not ResearchState.INSTALLING]
    steps = [f"research.step_{step}" for step in _values(ResearchProgressAnswer, "step")]
    assert _without_words(catalogs, states + steps + [f"research.fault_{code}" for code in get_args(FaultCode)]) == []


def test_every_kind_and_state_of_a_task_has_a_name(catalogs: dict[str, dict[str, object]]) -> None:
    told_by_code = ("failed",)
    states = [f"task_state.{word}" for word in _values(TaskAnswer, "state") if word not in told_by_code]
    assert _without_words(catalogs, states + [f"task_kind.{word}" for word in _values(TaskAnswer, "kind")] + ["task_failed.other"]) == []


def test_every_refusal_of_a_file_and_of_a_model_has_a_reason(catalogs: dict[str, dict[str, object]]) -> None:
    refusals = _written("capsule", r'FileRefused\(\s*"([a-z_]+)"')
    assert {"symlink", "mode", "not_text"} <= refusals
    assert _without_words(catalogs, [f"file.{word}" for word in sorted(refusals)]) == []
    assert _without_words(catalogs, [f"model_off.{word}" for word in get_args(ModelOff)]) == []


def test_every_refusal_of_a_skill_has_a_reason(catalogs: dict[str, dict[str, object]]) -> None:
    refusals = _written("capsule", r'SkillRefused\(\s*"([a-z_]+)"') | _written("capsule", r'\breason="([a-z_]+)"')
    checked = {f"bad_{field}" for field in ("name", "version", "description")} | {f"{field}_missing" for field in ("name", "version", "description")}
    assert {"link", "encrypted", "too_many_skills", "version_exists"} <= refusals
    assert _without_words(catalogs, [f"skill_refused.{word}" for word in sorted(refusals | checked)]) == []


def test_every_reason_why_a_document_gives_no_text_has_words(catalogs: dict[str, dict[str, object]]) -> None:
    refusals = {
        word for name in ("document", "document_format", "docx_archive")
        for word in re.findall(r'(?:FileRefused\(|_refused\(path, |refused\()"([a-z_]+)"', (PROJECT / f"src/agent_builder/tools/{name}.py").read_text())
    }
    assert {"archive", "format", "not_installed", "too_large"} <= refusals
    assert _without_words(catalogs, [f"reading.{word}" for word in sorted({*refusals, *get_args(Code)})]) == []


def test_every_line_of_a_command_is_said_with_the_same_blanks(catalogs: dict[str, dict[str, object]]) -> None:
    helps = {f"help_{command.name}": "" for command in SLASH_COMMANDS.commands}
    sentences = {**SENTENCES, **helps}
    assert _without_words(catalogs, [f"said.{code}" for code in sentences]) == []
    for words in catalogs.values():
        assert {key.removeprefix("said.") for key in words if key.startswith("said.")} == set(sentences)
        for code, sentence in sentences.items():
            assert sorted(re.findall(r"\{(\w+)\}", str(words[f"said.{code}"]))) == sorted(re.findall(r"\{(\w+)\}", sentence)), code
