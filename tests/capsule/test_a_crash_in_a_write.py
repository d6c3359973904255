"""A child is killed with SIGKILL before or after each step of a write; then the next load cleans up."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_builder.capsule import atomic_replace
from agent_builder.capsule.atomic_replace import absent_file, create_file, replace_file
from agent_builder.capsule.leftovers import remove_reserved_temps
from agent_builder.capsule.paths import parse_path
from agent_builder.capsule.safe_open import read_file
from tests.support.capability import put

OLD, NEW, OUTSIDE = b"old text\n" * 400, b"new text\n" * 500, b"somebody's edit\n" * 300
PATH = parse_path("d/a.txt")
REPLACE_STEPS = ["_write_new", "_fill", "_apply", "_announce", "exchange_names", "_verify", "_sync", "_forget"]
CREATE_STEPS = ["_write_new", "_fill", "_apply", "publish_name", "_settle_created", "_sync"]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "workspace"
    place.mkdir(mode=0o700)
    put(place, "d/other.txt", "x")
    return place


def killed_at(step: str, when: str, write: Callable[[], object], outside: Callable[[], object]) -> None:
    """Runs `write` in a child that dies at the step; `outside` happens just before the exchange or the publication."""
    child = os.fork()
    if child == 0:
        for name in ("exchange_names", "publish_name"):
            _wrap(name, before=outside)
        kill = lambda: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
        _wrap(step, **{when: kill})
        try:
            write()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


def _wrap(name: str, before: Callable[[], object] | None = None, after: Callable[[], object] | None = None) -> None:
    real = getattr(atomic_replace, name)

    def wrapped(*arguments: object) -> object:
        if before is not None:
            before()
        result = real(*arguments)
        if after is not None:
            after()
        return result

    setattr(atomic_replace, name, wrapped)


def edits(target: Path) -> dict[str, Callable[[], object]]:
    once: list[int] = []

    def first_time(action: Callable[[], object]) -> Callable[[], object]:
        return lambda: once or (once.append(1), action())

    return {
        "nobody": lambda: None,
        "in place": first_time(lambda: target.write_bytes(OUTSIDE)),
        "renamed over": first_time(lambda: put(target.parent, "t", OUTSIDE).replace(target)),
    }


@pytest.mark.parametrize("outside", ["nobody", "in place", "renamed over"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", REPLACE_STEPS)
def test_a_replacement_is_whole_or_not_there_and_no_outside_edit_is_lost(workspace: Path, step: str, when: str, outside: str) -> None:
    target = put(workspace, "d/a.txt", OLD)
    bound, _ = read_file(workspace, PATH)
    edit = edits(target)[outside]
    if step == "_sync" and outside != "nobody":
        step = "_exchange_back"
    killed_at(step, when, lambda: replace_file(workspace, bound, NEW), edit)
    edited = target.read_bytes() != OLD and outside != "nobody"
    assert target.read_bytes() in (OLD, NEW, OUTSIDE)

    remove_reserved_temps(workspace)

    found = target.read_bytes()
    reached = REPLACE_STEPS.index(step) if step in REPLACE_STEPS else len(REPLACE_STEPS)
    happened = reached > REPLACE_STEPS.index("exchange_names") or (step == "exchange_names" and (when == "after" or edited))
    if outside != "nobody" and happened:
        assert found == OUTSIDE
    else:
        assert found in (OLD, NEW)
    assert sorted(os.listdir(workspace / "d")) == ["a.txt", "other.txt"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", CREATE_STEPS)
def test_a_new_file_is_whole_or_not_there(workspace: Path, step: str, when: str) -> None:
    bound = absent_file(workspace, PATH)
    killed_at(step, when, lambda: create_file(workspace, bound, NEW), lambda: None)
    target = workspace / "d/a.txt"

    remove_reserved_temps(workspace)

    assert not target.exists() or target.read_bytes() == NEW
    assert [name for name in os.listdir(workspace / "d") if name.startswith(".")] == []


def test_a_displaced_edit_whose_place_is_gone_gets_a_name_that_shows_it(workspace: Path) -> None:
    """Killed after the exchange of an edited file, and then the operator removes the target."""
    target = put(workspace, "d/a.txt", OLD)
    bound, _ = read_file(workspace, PATH)
    killed_at("_verify", "before", lambda: replace_file(workspace, bound, NEW), edits(target)["in place"])
    target.unlink()

    assert remove_reserved_temps(workspace) == 1

    (recovered,) = [name for name in os.listdir(workspace / "d") if name.startswith("recovered-")]
    assert (workspace / "d" / recovered).read_bytes() == OUTSIDE
