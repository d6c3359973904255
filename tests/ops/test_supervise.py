"""Arguments of start.sh and stop.sh: what is wrong is said in one line, with the documented exit code."""

from pathlib import Path

import pytest

from agent_builder.ops import starting, stopping, supervise
from agent_builder.ops.local_mode import LocalMode
from agent_builder.ops.starting import Wish
from agent_builder.protocol.checkout import Checkout


@pytest.fixture
def wishes(monkeypatch: pytest.MonkeyPatch) -> list[Wish]:
    """What start was asked for."""
    seen: list[Wish] = []

    def start(checkout: Checkout, wish: Wish) -> int:
        seen.append(wish)
        return 0

    monkeypatch.setattr(starting, "start", start)
    return seen


@pytest.mark.parametrize(
    ("arguments", "wish"),
    [
        ([], Wish()),
        (["--local-model"], Wish(LocalMode(("base",)))),
        (["--local-model", "small"], Wish(LocalMode(("small",)))),
        (["--local-model", "base,small"], Wish(LocalMode(("base", "small")))),
        (["--no-local-model"], Wish(forget=True)),
    ],
)
def test_start_understands_its_arguments(wishes: list[Wish], arguments: list[str], wish: Wish) -> None:
    assert supervise.main(["start", *arguments]) == 0
    assert wishes == [wish]


def test_an_own_file_is_served_alone_unless_a_model_is_named_too(wishes: list[Wish], tmp_path: Path) -> None:
    weights = tmp_path / "my own.gguf"
    weights.touch()
    assert supervise.main(["start", "--local-model", "--model-file", str(weights)]) == 0
    assert supervise.main(["start", "--local-model", "small", "--model-file", str(weights)]) == 0
    assert wishes == [Wish(LocalMode((), weights)), Wish(LocalMode(("small",), weights))]


@pytest.mark.parametrize(
    "arguments",
    [["--nonsense"], ["--local-model", "huge"], ["--model-file", "/x.gguf"], ["--local-model", "--model-file", "/does/not/exist.gguf"], ["stray"]],
)
def test_start_refuses_wrong_arguments(wishes: list[Wish], arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert supervise.main(["start", *arguments]) == 2
    assert wishes == []
    line = capsys.readouterr().err
    assert line.startswith("agent-builder: ")
    assert line.count("\n") == 1


@pytest.mark.parametrize(("arguments", "forced"), [([], False), (["--force"], True)])
def test_stop_understands_its_arguments(monkeypatch: pytest.MonkeyPatch, arguments: list[str], forced: bool) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(stopping, "stop", lambda checkout, forced: seen.append(forced) or 0)
    assert supervise.main(["stop", *arguments]) == 0
    assert seen == [forced]


@pytest.mark.parametrize("arguments", [["--now"], ["--force", "--force"], ["all"]])
def test_stop_refuses_wrong_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert supervise.main(["stop", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("command", ["start", "stop"])
def test_help_names_the_exit_codes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert supervise.main([command, "--help"]) == 0
    assert "exit: 0 " in capsys.readouterr().out
