"""document/extract_text: a part of the text of a document, taken by a confined one-shot parser from a one-time copy.

    path -> checked like every file -> kind by content -> private copy -> parser -> its answer, checked -> text or why there is none

The parser reads nothing but the copy, the standard library and the Agent's research environment. It shares the turn of confined
commands: one at a time in the whole Gateway, so that its memory and processor are bounded for all Agents together.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent_builder.capsule.command_runner import CommandBounds, CommandEnd, run_handshake
from agent_builder.capsule.paths import FileRefused
from agent_builder.capsule.safe_open import FileVersion, read_file
from agent_builder.protocol.limits import (
    DOCUMENT_CHARS,
    DOCUMENT_FILE_BYTES,
    DOCUMENT_OUTPUT_BYTES,
    DOCUMENT_WALL_S,
)
from agent_builder.protocol.ports import Clock
from agent_builder.sandbox.launch import document_command
from agent_builder.storage.private_files import write_private
from agent_builder.tools.calls import CapabilityResult, refused
from agent_builder.tools.document_answer import Asked, result_of
from agent_builder.tools.document_format import Kind, kind_of
from agent_builder.tools.file_read import file_refusal, path_argument
from agent_builder.tools.private_directory import in_a_thread, private_directory

EXTRACT_TEXT = "document/extract_text"
_COPY = "document"
_BOUNDS = CommandBounds(DOCUMENT_WALL_S, DOCUMENT_OUTPUT_BYTES)
_NEEDS_LIBRARY: tuple[Kind, ...] = ("pdf", "docx")
_READ_HERE_ONLY = {"not_text": (".pdf", ".docx", ".html", ".htm"), "too_large": (".pdf", ".docx", ".html", ".htm", ".md", ".txt")}
_NOT_INSTALLED = (
    "nothing was read: this Agent has no environment for documents; the operator can install it in the Agent list under "
    "Documents, Skills and Tasks"
)


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """Where a document is parsed: `directory` is made for the copy and removed with it; the Worker cannot reach it. `library`: the
    installed research environment, None where there is none. One confined program at a time holds `turn`."""

    workspace: Path
    directory: Path
    worker_env: Path
    library: Path | None
    clock: Clock
    search_clock: Callable[[], Callable[[], bool]]
    turn: asyncio.Lock


async def extract_text(arguments: dict[str, object], place: DocumentPlace) -> CapabilityResult:
    """Raises SandboxFailed when the parser cannot be confined, and OSError when the copy cannot be made."""
    if place.library is None:
        return refused("not_installed", _NOT_INSTALLED)
    first, most = arguments.get("offset_chars", 0), arguments.get("max_chars", DOCUMENT_CHARS)
    assert isinstance(first, int)
    assert isinstance(most, int)
    try:
        version, kind, data = await asyncio.to_thread(_document, str(arguments["path"]), place)
    except FileRefused as refusal:
        return await asyncio.to_thread(file_refusal, place.workspace, str(arguments["path"]), refusal, place.search_clock())
    async with place.turn:
        end = await _parsed(kind, data, first, most, place)
    return result_of(Asked(version, kind, first, most), end)


def with_way_to_text(result: CapabilityResult, path: str) -> CapabilityResult:
    """A tool for text files that met a document, or a file too large for it, names the one that can read it."""
    if result.code is None or not path.lower().endswith(_READ_HERE_ONLY.get(result.code, ())):
        return result
    return refused(result.code, f"{result.text}; document_extract_text reads it", **result.receipt)


def _document(path: str, place: DocumentPlace) -> tuple[FileVersion, Kind, bytes]:
    """Blocking. Raises FileRefused."""
    version, data = read_file(place.workspace, path_argument(path), DOCUMENT_FILE_BYTES)
    return version, kind_of(version.path.text, data), data


async def _parsed(kind: Kind, data: bytes, first: int, most: int, place: DocumentPlace) -> CommandEnd:
    async with private_directory(place.directory) as directory:
        copy = directory / _COPY
        await in_a_thread(write_private, copy, data)
        library = place.library if kind in _NEEDS_LIBRARY else None
        launch = document_command(kind, place.worker_env, copy, library)
        return await run_handshake(launch, directory, [str(first), str(most)], _BOUNDS, place.clock)
