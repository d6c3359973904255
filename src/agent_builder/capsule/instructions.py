"""The workspace instructions: exactly `agent-builder.md` at the top of the workspace, read whole or refused."""

from dataclasses import dataclass
from pathlib import Path

from agent_builder.capsule.atomic_replace import TargetChanged, absent_file, create_file
from agent_builder.capsule.paths import FileRefused, parse_path
from agent_builder.capsule.safe_open import read_file, text_of
from agent_builder.protocol.errors import InstructionsRefused
from agent_builder.protocol.limits import INSTRUCTION_FILE_BYTES

INSTRUCTIONS_NAME = "agent-builder.md"

DEFAULT_TEXT = """\
# Instructions for this Agent

Answer in the language of the question. Say so plainly when something is not known.
Change files only when asked to.

(The operator may edit this file; it is read anew for every message.)
"""

_PATH = parse_path(INSTRUCTIONS_NAME)
_BY_MODE = ("mode", "access")


@dataclass(frozen=True, slots=True)
class Instructions:
    """`text` as it stands in the file, `bytes` and SHA-256 `digest` of it."""

    text: str
    bytes: int
    digest: str


def read_instructions(workspace: Path) -> Instructions | None:
    """None where the file is missing. Blocking. Raises InstructionsRefused with the way to mend it."""
    try:
        version, data = read_file(workspace, _PATH)
        if version.bytes > INSTRUCTION_FILE_BYTES:
            raise FileRefused(
                "too_large", f"{INSTRUCTIONS_NAME} has {version.bytes} bytes; at most {INSTRUCTION_FILE_BYTES} are used; shorten it"
            )
        return Instructions(text_of(_PATH, data), version.bytes, version.digest)
    except FileRefused as refusal:
        if refusal.reason == "missing":
            return None
        raise InstructionsRefused(f"The workspace instructions cannot be used: {_way_out(refusal)}.", reason=refusal.reason) from refusal


def restore_default(workspace: Path) -> bool:
    """Creates the default instructions atomically where nothing of that name exists, and never touches what does.
    Blocking. Whether it created them."""
    try:
        absent = absent_file(workspace, _PATH)
        create_file(workspace, absent, DEFAULT_TEXT.encode())
    except TargetChanged:
        return False  # somebody else created it in the same moment
    except FileRefused as refusal:
        if refusal.reason == "exists":
            return False
        raise
    return True


def _way_out(refusal: FileRefused) -> str:
    if refusal.reason in _BY_MODE and INSTRUCTIONS_NAME in refusal.sentence:
        return f"{refusal.sentence.partition(';')[0]}; in the Agent's workspace run: chmod 600 {INSTRUCTIONS_NAME}"
    return refusal.sentence
