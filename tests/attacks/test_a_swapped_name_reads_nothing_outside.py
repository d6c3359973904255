"""A name that alternates between the real thing and a link: whatever is read is from inside, or nothing is."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_builder.capsule.paths import FileRefused, parse_path
from agent_builder.capsule.safe_open import read_file
from agent_builder.tools.file_search import grep
from tests.support.capability import never, put

SWAPS = 1000


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "workspace"
    place.mkdir(mode=0o700)
    put(place, "d/f.txt", "inside")
    put(tmp_path, "outside/f.txt", "OUTSIDE")
    return place


@contextmanager
def swapping(swap: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Swaps a thousand times beside the block; yields whether that is still going on."""
    worker = threading.Thread(target=lambda: [swap() for _ in range(SWAPS)])
    worker.start()
    try:
        yield worker.is_alive
    finally:
        worker.join()


def swap_directory(workspace: Path) -> Callable[[], None]:
    def swap() -> None:
        (workspace / "d").rename(workspace / "real")
        (workspace / "d").symlink_to(workspace.parent / "outside")
        (workspace / "d").unlink()
        (workspace / "real").rename(workspace / "d")

    return swap


def swap_leaf(workspace: Path) -> Callable[[], None]:
    def swap() -> None:
        (workspace / "d/f.txt").rename(workspace / "d/real.txt")
        (workspace / "d/f.txt").symlink_to(workspace.parent / "outside/f.txt")
        (workspace / "d/real.txt").replace(workspace / "d/f.txt")

    return swap


@pytest.mark.parametrize("kind", [swap_directory, swap_leaf])
def test_a_read_gives_the_inside_or_nothing(workspace: Path, kind: Callable[[Path], Callable[[], None]]) -> None:
    ends: set[str] = set()
    with swapping(kind(workspace)) as going_on:
        while going_on():
            try:
                ends.add(read_file(workspace, parse_path("d/f.txt"))[1].decode())
            except FileRefused as refusal:
                ends.add(refusal.reason)
    assert ends <= {"inside", "symlink", "missing", "not_directory", "changing"}
    assert read_file(workspace, parse_path("d/f.txt"))[1] == b"inside"


def test_a_search_gives_the_inside_or_nothing(workspace: Path) -> None:
    with swapping(swap_directory(workspace)) as going_on:
        while going_on():
            assert "OUTSIDE" not in grep(workspace, {"pattern": "SIDE"}, never).text.partition("\n")[2]
