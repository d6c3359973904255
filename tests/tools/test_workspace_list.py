from pathlib import Path

import pytest

from agent_builder.protocol.errors import InvalidRequest, NotFound
from agent_builder.protocol.limits import FILE_BYTES, WORKSPACE_LIST
from agent_builder.tools.workspace_list import WorkspaceItem, list_workspace, open_download
from tests.support.capability import never, put


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "workspace"
    place.mkdir(mode=0o700)
    return place


def test_files_are_listed_by_the_beginning_of_their_path(workspace: Path) -> None:
    for path in ("notes.md", "no/a.md", "other.md", ".git/config"):
        put(workspace, path, "x\n")
    listing = list_workspace(workspace, "no", WORKSPACE_LIST, never)
    assert listing.items == (WorkspaceItem("no/a.md", 2, True, None), WorkspaceItem("notes.md", 2, True, None))
    assert not listing.truncated
    assert [one.path for one in list_workspace(workspace, "", WORKSPACE_LIST, never).items] == ["no/a.md", "notes.md", "other.md"]


def test_what_cannot_be_attached_says_why(workspace: Path) -> None:
    put(workspace, "big", b"x" * (FILE_BYTES + 1))
    put(workspace, "bin", b"\0")
    put(workspace, "wide", "x", 0o666)
    (workspace / "link").symlink_to("wide")
    items = list_workspace(workspace, "", WORKSPACE_LIST, never).items
    found = {one.path: (one.attachable, one.reason or "") for one in items}
    assert {one.path: one.reason_code for one in items} == {"big": "too_large", "bin": "not_text", "link": "symlink", "wide": "mode"}
    assert {path: attachable for path, (attachable, _) in found.items()} == {"big": False, "bin": False, "link": False, "wide": False}
    assert "binary" in found["bin"][1]
    assert "symbolic link" in found["link"][1]
    assert "chmod go-w wide" in found["wide"][1]


def test_at_most_200_files_are_listed(workspace: Path) -> None:
    for number in range(WORKSPACE_LIST):
        put(workspace, f"{number:03}", "")
    assert not list_workspace(workspace, "", 1000, never).truncated
    put(workspace, "999", "")
    listing = list_workspace(workspace, "", 1000, never)
    assert (len(listing.items), listing.truncated) == (WORKSPACE_LIST, True)
    assert len(list_workspace(workspace, "", 3, never).items) == 3


def test_a_download_is_the_files_bytes(workspace: Path) -> None:
    put(workspace, "d/a.bin", b"\0\xff")
    assert open_download(workspace, "d/a.bin") == b"\0\xff"
    with pytest.raises(NotFound):
        open_download(workspace, "d/gone")


@pytest.mark.parametrize("path", ["", "../x", "/etc/passwd", "link", "d", ".git/config"])
def test_nothing_else_can_be_downloaded(workspace: Path, path: str) -> None:
    put(workspace, "d/x", "x")
    (workspace / "link").symlink_to("/etc/passwd")
    with pytest.raises(InvalidRequest):
        open_download(workspace, path)


def test_a_workspace_that_cannot_be_used_is_refused_with_the_reason(workspace: Path) -> None:
    workspace.chmod(0o777)
    with pytest.raises(InvalidRequest) as refused:
        list_workspace(workspace, "", WORKSPACE_LIST, never)
    assert "others may write into the workspace; the operator can run there: chmod go-w ." in refused.value.message
    workspace.rmdir()
    for attempt in (lambda: list_workspace(workspace, "", WORKSPACE_LIST, never), lambda: open_download(workspace, "a")):
        with pytest.raises(InvalidRequest) as gone:
            attempt()
        assert "the workspace cannot be opened" in gone.value.message
