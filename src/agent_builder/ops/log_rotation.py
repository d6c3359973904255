"""RotatingLog: one log file of bounded size with a bounded number of older ones, written in batches."""

import os
from pathlib import Path

from agent_builder.protocol.limits import LOG_BACKUPS, LOG_BATCH_BYTES, LOG_BYTES


class RotatingLog:
    """`write` collects, `flush` writes; call `flush` about once a second and at the end. A full disk costs lines, not the program."""

    def __init__(self, path: Path, limit: int = LOG_BYTES, backups: int = LOG_BACKUPS) -> None:
        self.path, self.limit, self.backups = path, limit, backups
        self._pending = bytearray()
        self._dropped = 0

    @property
    def pending(self) -> bool:
        return bool(self._pending)

    def write(self, data: bytes) -> None:
        self._pending += data
        if len(self._pending) >= LOG_BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes what was collected in pieces that keep every file within its limit."""
        while self._pending:
            piece = bytes(self._pending[: min(LOG_BATCH_BYTES, self.limit)])
            del self._pending[: len(piece)]
            try:
                self._append(self._note() + piece)
                self._dropped = 0
            except OSError:
                self._dropped += len(piece)  # told in the log as soon as it can be written again

    def _note(self) -> bytes:
        return f"[{self._dropped} bytes of log could not be written]\n".encode() if self._dropped else b""

    def _append(self, data: bytes) -> None:
        if self._size() + len(data) > self.limit:
            self._rotate()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(descriptor, data[: self.limit])
        finally:
            os.close(descriptor)

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def _rotate(self) -> None:
        for number in range(self.backups, 0, -1):
            older = self._older(number - 1)
            if older.exists():
                older.replace(self._older(number))

    def _older(self, number: int) -> Path:
        return self.path if number == 0 else self.path.with_name(f"{self.path.name}.{number}")
