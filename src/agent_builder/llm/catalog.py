"""The trusted model catalog: read once at start, only from a file that nobody but its owner can have written. A fault is
told with its line.
"""

import os
import re
import stat
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from agent_builder.llm.catalog_schema import CatalogTable
from agent_builder.protocol.limits import CATALOG_BYTES
from agent_builder.protocol.model_profile import ModelProfile

_PLACE = re.compile(r"\(at line (\d+), column \d+\)")
_ENTRY = re.compile(r"\s*\[\[\s*models\s*\]\]")
_CHECKOUT = Path(__file__).resolve().parents[3]


class CatalogError(Exception):
    """Why the catalog cannot be used. `line` is 0 where no line is at fault."""

    def __init__(self, name: str, line: int, reason: str) -> None:
        self.line, self.reason = line, reason
        super().__init__(f"{name}, line {line}: {reason}" if line else f"{name}: {reason}")


@dataclass(frozen=True, slots=True)
class Catalog:
    """`default` is the model_id of an enabled entry. `notice`: a line for the operator about what was put right."""

    default: str
    models: tuple[ModelProfile, ...]
    notice: str | None = None


def load_catalog(path: Path, root: Path = _CHECKOUT) -> Catalog:
    """`root`: the checkout, which holds the key files. Raises CatalogError."""
    data, notice = _read_trusted(path)
    try:
        text = data.decode()
        table = CatalogTable.model_validate(tomllib.loads(text))
    except UnicodeDecodeError as error:
        raise CatalogError(path.name, data[: error.start].count(b"\n") + 1, "is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise _syntax_fault(path, text, error) from None
    except ValidationError as error:
        raise _schema_fault(path, text, error) from None
    _check_names(path, text, table)
    _check_keys(path, text, table, root)
    return Catalog(table.default, tuple(entry.profile(root) for entry in table.models), notice)


def _read_trusted(path: Path) -> tuple[bytes, str | None]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise CatalogError(path.name, 0, f"cannot be opened ({error.strerror})") from None
    try:
        mode = _trusted_mode(path, os.fstat(descriptor))
        data = _read(descriptor)
        notice = _tighten(path, descriptor, mode)
    finally:
        os.close(descriptor)
    if len(data) > CATALOG_BYTES:
        raise CatalogError(path.name, 0, f"has more than {CATALOG_BYTES} bytes")
    return data, notice


def _trusted_mode(path: Path, found: os.stat_result) -> int:
    if not stat.S_ISREG(found.st_mode):
        raise CatalogError(path.name, 0, "is not a regular file")
    if found.st_uid != os.geteuid():
        raise CatalogError(path.name, 0, "does not belong to the user who starts Agent Builder")
    if found.st_mode & stat.S_IWOTH:
        raise CatalogError(path.name, 0, "can be written by everyone: check it, then chmod 600")
    return found.st_mode


def _read(descriptor: int) -> bytes:
    data = b""
    while len(data) <= CATALOG_BYTES and (part := os.read(descriptor, CATALOG_BYTES + 1 - len(data))):
        data += part
    return data


def _tighten(path: Path, descriptor: int, mode: int) -> str | None:
    if not mode & stat.S_IWGRP:
        return None
    os.fchmod(descriptor, stat.S_IMODE(mode) & ~stat.S_IWGRP)
    return f"{path.name} could be written by its group; only its owner can write it now."


def _syntax_fault(path: Path, text: str, error: tomllib.TOMLDecodeError) -> CatalogError:
    place = _PLACE.search(str(error))
    line = int(place[1]) if place else text.count("\n") + 1
    return CatalogError(path.name, line, _PLACE.sub("", str(error)).strip())


def _schema_fault(path: Path, text: str, error: ValidationError) -> CatalogError:
    first = error.errors(include_url=False, include_input=False)[0]
    where = first["loc"]
    key = ".".join(str(part) for part in where if isinstance(part, str) and part != "models") or "models"
    known = {"extra_forbidden": " is not a known key", "missing": " is missing"}
    reason = known.get(first["type"]) or ": " + first["msg"].removeprefix("Value error, ")
    return CatalogError(path.name, line_of(text, where), key + reason)


def _check_names(path: Path, text: str, table: CatalogTable) -> None:
    seen: set[str] = set()
    for index, entry in enumerate(table.models):
        if entry.model_id in seen:
            raise CatalogError(path.name, line_of(text, ("models", index, "model_id")), "model_id stands twice")
        seen.add(entry.model_id)
    if not any(entry.model_id == table.default and entry.enabled for entry in table.models):
        raise CatalogError(path.name, line_of(text, ("default",)), "default names no enabled entry")


def _check_keys(path: Path, text: str, table: CatalogTable, root: Path) -> None:
    for index, entry in enumerate(table.models):
        fault = _key_fault(root, entry.api_key_file) if entry.api_key_file else None
        if fault is not None:
            raise CatalogError(path.name, line_of(text, ("models", index, "api_key_file")), f"api_key_file {fault}")


def _key_fault(root: Path, name: str) -> str | None:
    file = root / name
    if not file.resolve().is_relative_to(root.resolve()):
        return "must lie inside the checkout"
    try:
        found = file.lstat()
    except OSError:
        return "does not exist"
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        return "must be a regular file of your own"
    if stat.S_IMODE(found.st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
        return "must be readable by its owner only: chmod 600"
    return None


def line_of(text: str, where: Sequence[str | int]) -> int:
    """The line, from 1, on which the value at `where` stands, or else the nearest one above it that does."""
    lines = text.split("\n")
    at, end = 0, len(lines)
    keys = [part for part in where if isinstance(part, str)]
    if len(where) > 1 and where[0] == "models" and isinstance(where[1], int):
        heads = [number for number, line in enumerate(lines) if _ENTRY.match(line)]
        at = heads[where[1]] if where[1] < len(heads) else 0
        end = heads[where[1] + 1] if where[1] + 1 < len(heads) else len(lines)
        keys = keys[1:]
    for key in keys:
        pattern = re.compile(rf"(?:^|[\s{{,\[.\"]){re.escape(key)}\"?\s*[=\].]")
        at = next((number for number in range(at, end) if pattern.search(lines[number].partition("#")[0])), at)
    return at + 1
