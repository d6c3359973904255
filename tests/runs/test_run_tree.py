import asyncio
import os
from pathlib import Path

import pytest

from agent_builder.protocol.errors import RunTreeLimit
from agent_builder.protocol.limits import RUN_TREE_ALLOCATED_BYTES, RUN_TREE_BYTES, RUN_TREE_CHECK_S, RUN_TREE_ENTRIES
from agent_builder.runs.run_tree import check_tree, watch_tree
from tests.support.clock import MovableClock


def fill(root: Path, entries: int) -> None:
    for number in range(entries):
        (root / str(number)).touch()


def test_the_entry_bound_holds_at_n_and_n_plus_one(tmp_path: Path) -> None:
    fill(tmp_path, RUN_TREE_ENTRIES)
    check_tree(tmp_path)
    (tmp_path / "one more").touch()
    with pytest.raises(RunTreeLimit):
        check_tree(tmp_path)


def test_entries_below_directories_count(tmp_path: Path) -> None:
    deep = tmp_path / "a/b/c"
    deep.mkdir(parents=True)
    fill(deep, RUN_TREE_ENTRIES - 2)
    with pytest.raises(RunTreeLimit):
        check_tree(tmp_path)


def test_logical_size_counts_even_where_nothing_is_allocated(tmp_path: Path) -> None:
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(RUN_TREE_BYTES)
        check_tree(tmp_path)
        file.truncate(RUN_TREE_BYTES + 1)
    with pytest.raises(RunTreeLimit):
        check_tree(tmp_path)


def test_allocated_size_counts_even_where_the_file_looks_small(tmp_path: Path) -> None:
    with open(tmp_path / "reserved", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, RUN_TREE_ALLOCATED_BYTES + 4096)
    with pytest.raises(RunTreeLimit):
        check_tree(tmp_path)


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    check_tree(tmp_path)


async def test_the_watch_raises_within_one_look(tmp_path: Path) -> None:
    clock = MovableClock()
    watching = asyncio.ensure_future(watch_tree(tmp_path, clock))
    await asyncio.sleep(0)
    fill(tmp_path, RUN_TREE_ENTRIES + 1)
    for _ in range(3):
        clock.advance(RUN_TREE_CHECK_S)
        await asyncio.sleep(0)
    with pytest.raises(RunTreeLimit):
        await watching
