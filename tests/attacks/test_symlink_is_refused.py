"""A link inside the workspace must not be a door out of it, whichever tool is asked."""

import os
from pathlib import Path

import pytest

from agent_builder.protocol.errors import AttachmentRefused, InvalidRequest
from agent_builder.tools.attachments import read_attachments
from agent_builder.tools.workspace_list import open_download
from tests.support.capability import ToolRun, make_run, put

SECRET = "the secret outside"


@pytest.fixture
def run(tmp_path: Path) -> ToolRun:
    run = make_run(tmp_path)
    put(tmp_path, "outside/secret.txt", SECRET)
    put(run.workspace, "inside.txt", "inside\n")
    (run.workspace / "leaf.txt").symlink_to(tmp_path / "outside/secret.txt")
    (run.workspace / "folder").symlink_to(tmp_path / "outside")
    (run.workspace / "near.txt").symlink_to("inside.txt")
    (run.workspace / "dangling.txt").symlink_to("nothing")
    (run.workspace / "loop").symlink_to("loop")
    return run


LINKS = ["leaf.txt", "folder/secret.txt", "folder", "near.txt", "dangling.txt", "loop", "loop/x"]


@pytest.mark.parametrize("path", LINKS)
async def test_no_tool_follows_a_link(run: ToolRun, path: str) -> None:
    calls = [
        ("file/read_text", {"path": path}), ("file/stat", {"path": path}), ("file/grep", {"path": path, "pattern": "secret"}),
        ("file/edit", {"path": path, "old": SECRET, "new": "x"}), ("file/write", {"path": path, "content": "x"}),
    ]
    for tool_id, arguments in calls:
        result = await run.call(tool_id, **arguments)
        assert (result.outcome, result.code) == ("refused", "symlink"), tool_id
        assert SECRET not in result.text
    assert "permission.requested" not in run.types()


async def test_no_search_follows_a_link(run: ToolRun) -> None:
    found = await run.call("file/grep", pattern="s")
    assert "inside.txt:1: inside" in found.text
    assert SECRET not in found.text
    assert "secret.txt" not in (await run.call("file/glob", pattern="**")).text


@pytest.mark.parametrize("path", LINKS)
def test_no_link_is_attached_or_downloaded(run: ToolRun, path: str) -> None:
    with pytest.raises(AttachmentRefused):
        read_attachments(run.workspace, [path])
    with pytest.raises(InvalidRequest):
        open_download(run.workspace, path)


async def test_a_new_file_is_not_made_through_a_link(run: ToolRun, tmp_path: Path) -> None:
    assert (await run.call("file/write", path="folder/new.txt", content="x")).code == "symlink"
    assert (await run.call("file/write", path="dangling.txt", content="x")).code == "symlink"
    assert os.listdir(tmp_path / "outside") == ["secret.txt"]
    assert not (run.workspace / "nothing").exists()
