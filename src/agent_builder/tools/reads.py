"""ReadRecord: which bytes of which version of a file the model has seen in this Run. Only seen text may be replaced."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from agent_builder.protocol.messages import Attachment

Range = tuple[int, int]
"""First byte and the byte behind the last."""


@dataclass(slots=True)
class _Seen:
    digest: str
    ranges: list[Range] = field(default_factory=list)


class ReadRecord:
    """One per Run. A file that changed since (another digest) counts as not read."""

    def __init__(self) -> None:
        self._files: dict[str, _Seen] = {}

    @classmethod
    def from_attachments(cls, attachments: Iterable[Attachment]) -> "ReadRecord":
        """Attached text stood in the message, so it was seen."""
        record = cls()
        for attachment in attachments:
            record.add(attachment.path, attachment.digest, (0, len(attachment.text.encode())))
        return record

    def add(self, path: str, digest: str, seen: Range) -> None:
        file = self._files.get(path)
        if file is None or file.digest != digest:
            file = self._files[path] = _Seen(digest)
        file.ranges = _merged([*file.ranges, seen])

    def forget(self) -> None:
        """What was shown was cut away again before the model saw it: nothing counts as read any more."""
        self._files.clear()

    def covers(self, path: str, digest: str, wanted: Range) -> bool:
        """Whether all of `wanted` was seen in exactly this version. Nothing is always seen."""
        if wanted[0] == wanted[1]:
            return True
        return any(start <= wanted[0] and wanted[1] <= end for start, end in self._ranges(path, digest))

    def first_gap(self, path: str, digest: str, wanted: Range) -> int | None:
        """The first byte of `wanted` that was not seen in this version; None when all were."""
        end = next((end for start, end in self._ranges(path, digest) if start <= wanted[0] < end), wanted[0])
        return end if end < wanted[1] else None

    def edited(self, path: str, old_digest: str, new_digest: str, replaced: Range, new_bytes: int) -> None:
        """This Run replaced `replaced` by `new_bytes` bytes: what was seen around it and what it wrote are known."""
        start, end = replaced
        shift = start + new_bytes - end
        kept: list[Range] = [(start, start + new_bytes)]
        for first, last in self._ranges(path, old_digest):
            kept.append((min(first, start), min(last, start)))
            kept.append((max(first, end) + shift, max(last, end) + shift))
        self._files[path] = _Seen(new_digest, _merged(kept))

    def _ranges(self, path: str, digest: str) -> list[Range]:
        file = self._files.get(path)
        return file.ranges if file is not None and file.digest == digest else []


def _merged(ranges: list[Range]) -> list[Range]:
    merged: list[Range] = []
    for start, end in sorted(one for one in ranges if one[0] < one[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged
