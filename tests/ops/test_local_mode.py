"""The local model is asked for once and remembered."""

from pathlib import Path

import pytest

from agent_builder.local_model.weights import CATALOG
from agent_builder.ops.local_mode import MODES, LocalMode, forget_mode, parse_modes, read_mode, write_mode
from agent_builder.protocol.checkout import Checkout


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    checkout = Checkout(tmp_path)
    checkout.local_model.mkdir(parents=True)
    return checkout


@pytest.mark.parametrize("mode", [LocalMode(("base",)), LocalMode(("base", "small")), LocalMode((), Path("/models/my own.gguf"))])
def test_a_recorded_mode_is_read_back(checkout: Checkout, mode: LocalMode) -> None:
    write_mode(checkout, mode)
    assert read_mode(checkout) == mode


def test_nothing_recorded_means_no_local_model(checkout: Checkout) -> None:
    assert read_mode(checkout) is None


def test_a_forgotten_mode_is_gone(checkout: Checkout) -> None:
    write_mode(checkout, LocalMode(("small",)))
    forget_mode(checkout)
    forget_mode(checkout)
    assert read_mode(checkout) is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"modes": ["huge"], "model_file": null}', '{"modes": 5, "model_file": null}'])
def test_a_damaged_record_means_no_local_model(checkout: Checkout, text: str) -> None:
    (checkout.local_model / "mode.json").write_text(text)
    assert read_mode(checkout) is None


def test_modes_are_named_once_in_the_given_order() -> None:
    assert parse_modes("small,base,small") == ("small", "base")


@pytest.mark.parametrize("text", ["", "huge", "base,", "base;small"])
def test_an_unknown_mode_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="unknown local model"):
        parse_modes(text)


def test_the_modes_are_those_that_the_embedded_model_knows() -> None:
    assert tuple(CATALOG) == MODES
