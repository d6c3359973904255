"""LocalMode: whether the embedded model is used and which weights it serves; asked for once, then recorded."""

import fcntl
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent_builder.protocol.checkout import Checkout

MODES = ("base", "small", "smollm2")


class LocalModelUnavailable(Exception):
    """The embedded model cannot be prepared; what went wrong was printed already."""


@dataclass(frozen=True, slots=True)
class LocalMode:
    """`model_file`: weights that the operator already has, served first."""

    modes: tuple[str, ...]
    model_file: Path | None = None

    @property
    def words(self) -> str:
        return ",".join([*([str(self.model_file)] if self.model_file else []), *self.modes])

    def arguments(self) -> list[str]:
        return [*self.modes, *(["--model-file", str(self.model_file)] if self.model_file else [])]


def parse_modes(text: str) -> tuple[str, ...]:
    """`base`, `small` or `base,small`. Raises ValueError."""
    modes = tuple(dict.fromkeys(text.split(",")))
    unknown = [each for each in modes if each not in MODES]
    if unknown:
        raise ValueError(f"unknown local model {unknown[0]!r}: base, small or base,small")
    return modes


def read_mode(checkout: Checkout) -> LocalMode | None:
    """The recorded mode; None when none was asked for or the record is damaged."""
    try:
        stored = json.loads(_path(checkout).read_text())
        modes = parse_modes(",".join(stored["modes"])) if stored["modes"] else ()
        return LocalMode(modes, Path(stored["model_file"]) if stored["model_file"] else None)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_mode(checkout: Checkout, mode: LocalMode) -> None:
    path = _path(checkout)
    building = path.with_name(f"{path.name}.{os.getpid()}")
    with building.open("w") as file:
        json.dump({"modes": mode.modes, "model_file": str(mode.model_file) if mode.model_file else None}, file)
        file.flush()
        os.fsync(file.fileno())
    building.replace(path)


def forget_mode(checkout: Checkout) -> None:
    _path(checkout).unlink(missing_ok=True)


def prepare(checkout: Checkout, mode: LocalMode) -> None:
    """Builds the environment and fetches the weights where they are missing; both print their own progress.
    Raises LocalModelUnavailable."""
    checkout.local_model.mkdir(parents=True, exist_ok=True)
    script = checkout.root / "scripts/lib/local_model_environment.sh"
    fetch = [*command(checkout), "fetch", *mode.modes]
    with _one_at_a_time(checkout.local_model / "fetch.lock"):
        steps = [["bash", str(script)], *([fetch] if mode.modes else [])]
        for step in steps:
            if subprocess.run(step, cwd=checkout.root, check=False).returncode:
                raise LocalModelUnavailable


def command(checkout: Checkout) -> list[str]:
    """The embedded model's program in its own environment."""
    python = checkout.local_model / "venv/bin/python"
    return [str(python), "-m", "agent_builder.local_model", "--checkout", str(checkout.root)]


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _path(checkout: Checkout) -> Path:
    return checkout.local_model / "mode.json"
