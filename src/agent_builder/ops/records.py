"""PID records: which processes this checkout started, as `<role>.pid` files with pid, start time and boot id.

A record names a process; only ProcessIdentity proves that it still is that process.
"""

import json
import os
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from agent_builder.protocol.limits import RECORD_BYTES
from agent_builder.sandbox.process_identity import ProcessIdentity, is_alive


class Role(StrEnum):
    SUPERVISOR = "supervisor"
    GATEWAY = "gateway"
    MODEL_SERVER = "model-server"


class Standing(StrEnum):
    """What a record is worth."""

    ABSENT = "absent"
    ALIVE = "alive"
    GONE = "gone"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Record:
    pid: int
    start_time: int
    boot_id: str
    role: str
    port: int = 0

    @property
    def identity(self) -> ProcessIdentity:
        return ProcessIdentity(self.pid, self.start_time, self.boot_id)


@dataclass(frozen=True, slots=True)
class Found:
    """`record` is there unless standing is ABSENT, or the file cannot be read (FOREIGN)."""

    standing: Standing
    record: Record | None = None


def record_path(control_plane: Path, role: Role) -> Path:
    return control_plane / f"{role}.pid"


def lock_path(control_plane: Path) -> Path:
    """The file that a living supervisor holds locked; it names that supervisor too."""
    return control_plane / "supervisor.lock"


def record_text(role: Role, identity: ProcessIdentity, port: int = 0) -> str:
    return json.dumps(asdict(Record(identity.pid, identity.start_ticks, identity.boot_id, role, port)))


def write_record(control_plane: Path, role: Role, identity: ProcessIdentity, port: int = 0) -> None:
    path = record_path(control_plane, role)
    building = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(building, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(record_text(role, identity, port))
        file.flush()
        os.fsync(file.fileno())
    building.replace(path)


def find(control_plane: Path, role: Role) -> Found:
    """Reads a record and looks whether exactly that process, in this checkout, still runs."""
    found = _find(control_plane, record_path(control_plane, role), role)
    if role is Role.SUPERVISOR and found.standing is not Standing.ALIVE:
        held = _find(control_plane, lock_path(control_plane), role)  # the record may be lost while its process is not
        return held if held.standing is Standing.ALIVE else found
    return found


def _find(control_plane: Path, path: Path, role: Role) -> Found:
    try:
        with path.open("rb") as file:
            text = file.read(RECORD_BYTES)
    except FileNotFoundError:
        return Found(Standing.ABSENT)
    record = _parse(text, role)
    if record is None:
        return Found(Standing.FOREIGN)
    if is_alive(record.identity) and _belongs(record.pid, control_plane):
        return Found(Standing.ALIVE, record)
    return Found(Standing.FOREIGN if _exists(record.pid) else Standing.GONE, record)


def remove_record(control_plane: Path, role: Role) -> None:
    record_path(control_plane, role).unlink(missing_ok=True)


def _parse(text: bytes, role: Role) -> Record | None:
    try:
        record = Record(**json.loads(text))
    except (ValueError, TypeError):
        return None
    numbers = (record.pid, record.start_time, record.port)
    if any(type(number) is not int or number < 0 for number in numbers) or record.pid < 2 or record.role != role:
        return None
    return record


def _belongs(pid: int, control_plane: Path) -> bool:
    """Every process of ours works in the root of its checkout, also after that was moved. A hardened process hides where it
    works from everyone but root; its identity alone decides then."""
    try:
        return os.path.samefile(f"/proc/{pid}/cwd", control_plane.parents[1])
    except PermissionError:
        return True
    except OSError:
        return False


def _exists(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")
