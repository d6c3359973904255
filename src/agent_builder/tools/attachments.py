"""Workspace files attached to a message, read on the operator's word."""

from collections.abc import Sequence
from pathlib import Path

from agent_builder.capsule.paths import FileRefused
from agent_builder.capsule.safe_open import read_file, text_of
from agent_builder.protocol.errors import AttachmentRefused
from agent_builder.protocol.limits import ATTACHMENT_BYTES, ATTACHMENTS
from agent_builder.protocol.messages import Attachment
from agent_builder.tools.cuts import part_from_line
from agent_builder.tools.file_read import path_argument


def read_attachments(workspace: Path, paths: Sequence[str]) -> tuple[Attachment, ...]:
    """Each file's first ATTACHMENT_BYTES, or less, up to whole lines; a file named twice, as `a` and `./a` too, is attached once. Blocking.
    Raises AttachmentRefused with the path and the reason."""
    wanted: dict[str, str] = {}
    for path in paths:
        wanted.setdefault(path.removeprefix("./"), path)
    if len(wanted) > ATTACHMENTS:
        raise AttachmentRefused(f"{len(wanted)} files are attached; at most {ATTACHMENTS} are allowed.")
    return tuple(_attach(workspace, path) for path in wanted.values())


def _attach(workspace: Path, text: str) -> Attachment:
    try:
        path = path_argument(text)
        version, data = read_file(workspace, path)
        text_of(path, data)
    except FileRefused as refusal:
        raise AttachmentRefused(f"{text!r} cannot be attached: {refusal.sentence}.", path=text, reason=refusal.reason) from refusal
    part = part_from_line(data, 1, ATTACHMENT_BYTES)  # no file has more lines than bytes
    assert part is not None
    assert part.end <= ATTACHMENT_BYTES
    return Attachment(
        path=path.text, bytes=version.bytes, digest=version.digest, truncated=part.end < version.bytes, text=data[: part.end].decode()
    )
