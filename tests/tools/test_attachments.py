from pathlib import Path

import pytest

from agent_builder.protocol.digest import digest_bytes
from agent_builder.protocol.errors import AttachmentRefused
from agent_builder.protocol.limits import ATTACHMENT_BYTES, ATTACHMENTS
from agent_builder.protocol.messages import Attachment
from agent_builder.tools.attachments import read_attachments
from tests.support.capability import put


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "workspace"
    place.mkdir(mode=0o700)
    return place


def test_a_small_file_is_attached_whole(workspace: Path) -> None:
    data = "标题\r\nx".encode()
    put(workspace, "d/a.md", data)
    assert read_attachments(workspace, ["d/a.md"]) == (
        Attachment(path="d/a.md", bytes=len(data), digest=digest_bytes(data), truncated=False, text=data.decode()),
    )


@pytest.mark.parametrize(("size", "truncated"), [(ATTACHMENT_BYTES, False), (ATTACHMENT_BYTES + 1, True)])
def test_4096_bytes_are_attached_and_of_more_the_first_part(workspace: Path, size: int, truncated: bool) -> None:
    put(workspace, "a.md", "\n" * size)
    (attached,) = read_attachments(workspace, ["a.md"])
    assert (attached.truncated, attached.bytes, len(attached.text)) == (truncated, size, ATTACHMENT_BYTES)


def test_four_files_are_attached_and_a_fifth_refused(workspace: Path) -> None:
    paths = [f"{number}.md" for number in range(ATTACHMENTS + 1)]
    for path in paths:
        put(workspace, path, path)
    assert [one.text for one in read_attachments(workspace, paths[:-1])] == paths[:-1]
    assert len(read_attachments(workspace, [*paths[:-1], paths[0]])) == ATTACHMENTS
    with pytest.raises(AttachmentRefused):
        read_attachments(workspace, paths)


def test_no_files_are_no_attachments(workspace: Path) -> None:
    assert read_attachments(workspace, []) == ()


@pytest.mark.parametrize("path", ["gone.md", "../x", "/etc/passwd", "bin", "link", ".git/config", "", "d"])
def test_what_cannot_be_attached_refuses_the_message_with_path_and_reason(workspace: Path, path: str) -> None:
    put(workspace, "bin", b"\0")
    put(workspace, "d/x", "x")
    (workspace / "link").symlink_to("d/x")
    with pytest.raises(AttachmentRefused) as refused:
        read_attachments(workspace, [path])
    assert repr(path) in refused.value.message
    assert refused.value.details["reason"]


def test_one_file_under_two_spellings_is_attached_once_and_in_order(workspace: Path) -> None:
    for path in ("a.md", "b.md"):
        put(workspace, path, path)
    assert [one.path for one in read_attachments(workspace, ["./a.md", "b.md", "a.md"])] == ["a.md", "b.md"]
    assert len(read_attachments(workspace, ["a.md", "./a.md", "a.md", "./a.md", "a.md"])) == 1
