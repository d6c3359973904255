"""Reads an uploaded archive of a Skill: a zip with SKILL.md at its root or in its one top folder. Pure: nothing is written.

Everything in the archive is a claim. Names are taken only in their plain form; sizes are counted while unpacking, whatever the
directory of the archive says; links, devices, encrypted and otherwise packed entries, and names that collide where case does not
count are refused. What a Mac adds beside the files (`__MACOSX/`, `.DS_Store`) is passed over.
"""

import io
import re
import stat
import struct
import unicodedata
import zipfile
import zlib
from dataclasses import dataclass

from agent_builder.capsule.front_matter import FrontMatter, FrontMatterFault, parse_front_matter
from agent_builder.capsule.paths import FileRefused, parse_path
from agent_builder.protocol.digest import digest_bytes, digest_of
from agent_builder.protocol.limits import (
    SHOWN_PATH_BYTES,
    SKILL_ARCHIVE_BYTES,
    SKILL_BYTES,
    SKILL_DESCRIPTION_CHARS,
    SKILL_ENTRIES,
    SKILL_FILE_BYTES,
    SKILL_MD_BYTES,
    SKILL_NAME_CHARS,
    SKILL_RATIO,
    SKILL_VERSION_CHARS,
)

SKILL_MD = "SKILL.md"
SCRIPTS = "scripts/"
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_UTF8_NAME = 0x800
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]*")
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, ValueError, OverflowError, IndexError,
)


class SkillRefused(Exception):
    """The archive is not installed. `reason` is one stable word, `sentence` says what is wrong, `entry` names the file, `line` its line."""

    def __init__(self, reason: str, sentence: str, entry: str | None = None, line: int | None = None) -> None:
        self.reason = reason
        self.sentence = sentence
        self.entry = entry
        self.line = line
        super().__init__(sentence)


@dataclass(frozen=True, slots=True)
class SkillText:
    """What a SKILL.md says."""

    name: str
    version: str
    description: str
    instructions: str


@dataclass(frozen=True, slots=True)
class SkillArchive:
    """`files`: content by path below the Skill's folder. `digest`: names all of it."""

    text: SkillText
    files: dict[str, bytes]
    digest: str

    @property
    def bytes(self) -> int:
        return sum(map(len, self.files.values()))

    @property
    def scripts(self) -> tuple[str, ...]:
        """What can be run: Python files directly in scripts/."""
        names = (path.removeprefix(SCRIPTS) for path in self.files if path.startswith(SCRIPTS) and path.endswith(".py"))
        return tuple(sorted(name for name in names if "/" not in name))


def read_archive(data: bytes) -> SkillArchive:
    """Blocking. Raises SkillRefused."""
    if len(data) > SKILL_ARCHIVE_BYTES:
        raise SkillRefused("archive_too_large", f"the archive has more than {SKILL_ARCHIVE_BYTES} bytes")
    if not data.startswith(b"PK"):
        raise SkillRefused("not_zip", "this is no zip archive")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = _unpacked(archive, max(len(data) * SKILL_RATIO, SKILL_FILE_BYTES))
    except _DAMAGE as error:
        raise SkillRefused("damaged", "the archive is damaged or packed in a way that is not read") from error
    files = _below_its_folder(files)
    text = read_skill_md(files[SKILL_MD])
    for path, content in files.items():
        if path.endswith(".py"):
            _text(path, content)
    return SkillArchive(text, files, files_digest(files))


def files_digest(files: dict[str, bytes]) -> str:
    """Names exactly these files."""
    return digest_of([[path, digest_bytes(files[path])] for path in sorted(files)])


def read_skill_md(data: bytes) -> SkillText:
    """Raises SkillRefused."""
    if len(data) > SKILL_MD_BYTES:
        raise SkillRefused("instructions_too_long", f"SKILL.md has more than {SKILL_MD_BYTES} bytes", SKILL_MD)
    try:
        front = parse_front_matter(_text(SKILL_MD, data))
    except FrontMatterFault as fault:
        raise SkillRefused("front_matter", f"line {fault.line} of SKILL.md: {fault.sentence}", SKILL_MD, fault.line) from fault
    name, description = _required(front, "name"), " ".join(_required(front, "description").split())
    version = _required(front, "metadata.version" if "version" not in front.lines and "metadata.version" in front.lines else "version")
    _check(front, "name", len(name) <= SKILL_NAME_CHARS and _NAME.fullmatch(name) is not None,
           f"a name has small letters, digits and single hyphens between them, at most {SKILL_NAME_CHARS}")
    _check(front, "version", len(version) <= SKILL_VERSION_CHARS and _VERSION.fullmatch(version) is not None,
           f"a version has letters, digits and . + - _, at most {SKILL_VERSION_CHARS}, as in 1.0.0")
    _check(front, "description", len(description) <= SKILL_DESCRIPTION_CHARS and not _has_controls(description),
           f"a description has at most {SKILL_DESCRIPTION_CHARS} characters and no control characters")
    if not front.body.strip():
        raise SkillRefused("no_instructions", "SKILL.md has no instructions behind its front matter", SKILL_MD)
    return SkillText(name, version, description, front.body.strip("\n") + "\n")


# entries ---------------------------------------------------------------------------------------------------------


def _unpacked(archive: zipfile.ZipFile, most: int) -> dict[str, bytes]:
    entries = archive.infolist()
    if len(entries) > SKILL_ENTRIES:
        raise SkillRefused("too_many_entries", f"the archive has {len(entries)} entries; at most {SKILL_ENTRIES} are taken")
    files: dict[str, bytes] = {}
    taken: dict[str, tuple[str, bool]] = {}
    left = min(most, SKILL_BYTES)
    for entry in entries:
        path = _entry_path(entry)
        if path is None:
            continue
        _check_kind(entry, path)
        _claim(taken, path, directory=entry.is_dir())
        if entry.is_dir():
            continue
        content = _content(archive, entry, path, left)
        left -= len(content)
        files[path] = content
    return files


def _entry_path(entry: zipfile.ZipInfo) -> str | None:
    """In its plain form; None for what a Mac adds."""
    name = _entry_name(entry)
    shown = _shown(name)
    try:
        if "\\" in name or "\0" in entry.orig_filename:
            raise FileRefused("path", "the path has a backslash or NUL")
        path = parse_path(name.removesuffix("/"))
    except FileRefused as refusal:
        raise SkillRefused("name", f"the entry {shown} has a name that is not taken: {refusal.sentence}", shown) from refusal
    return None if path.parts[0] == "__MACOSX" or path.parts[-1] == ".DS_Store" else path.text


def _entry_name(entry: zipfile.ZipInfo) -> str:
    """A name without the mark of UTF-8 is read as cp437 by zipfile, but is UTF-8 as some programs write it."""
    name = entry.orig_filename
    if name.isascii() or entry.flag_bits & _UTF8_NAME:
        return name
    try:
        return name.encode("cp437").decode()
    except UnicodeError as error:
        raise SkillRefused("name", "an entry has a name that is not UTF-8", _shown(name)) from error


def _check_kind(entry: zipfile.ZipInfo, path: str) -> None:
    shown, kind = _shown(path), stat.S_IFMT(entry.external_attr >> 16)
    if entry.flag_bits & _ENCRYPTED:
        raise SkillRefused("encrypted", f"{shown} is encrypted", shown)
    if kind == stat.S_IFLNK:
        raise SkillRefused("link", f"{shown} is a link", shown)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR) or (kind == stat.S_IFDIR) > entry.is_dir():
        raise SkillRefused("special", f"{shown} is neither a file nor a folder", shown)
    if entry.compress_type not in _PACKED:
        raise SkillRefused("packing", f"{shown} is packed in a way that is not read; use ordinary zip", shown)


def _claim(taken: dict[str, tuple[str, bool]], path: str, *, directory: bool) -> None:
    """Raises SkillRefused where this file or folder and an earlier one could not lie side by side, whether or not case counts."""
    parts = path.split("/")
    for depth in range(1, len(parts) + 1):
        here = "/".join(parts[:depth])
        is_file = depth == len(parts) and not directory
        folded = unicodedata.normalize("NFKC", here).casefold()
        if (is_file and folded in taken) or taken.setdefault(folded, (here, is_file)) != (here, is_file):
            raise SkillRefused("duplicate", f"{_shown(path)} stands twice, or differs from another entry only in case", _shown(path))


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: str, left: int) -> bytes:
    """Never unpacks more than one byte beyond the bounds."""
    shown = _shown(path)
    with archive.open(entry) as file:
        content = file.read(min(left, SKILL_FILE_BYTES) + 1)
        if len(content) > SKILL_FILE_BYTES:
            raise SkillRefused("file_too_large", f"{shown} has more than {SKILL_FILE_BYTES} bytes", shown)
        if len(content) > left:
            raise SkillRefused(
                "too_large_unpacked", f"the files have more than {SKILL_BYTES} bytes, or {SKILL_RATIO} times the bytes of their archive", shown
            )
        if file.read(1):
            raise SkillRefused("damaged", f"{shown} is longer than the archive says", shown)
    return content


def _below_its_folder(files: dict[str, bytes]) -> dict[str, bytes]:
    """Paths as they stand below the folder of SKILL.md."""
    found = [path for path in files if path.split("/")[-1] == SKILL_MD]
    if len(found) > 1:
        raise SkillRefused("several_skill_md", "the archive has more than one SKILL.md; install one Skill at a time", _shown(found[1]))
    if not found or found[0].count("/") > 1:
        raise SkillRefused("no_skill_md", "the archive has no SKILL.md at its root or in its one top folder")
    folder = found[0].removesuffix(SKILL_MD)
    beside = next((path for path in files if not path.startswith(folder)), None)
    if beside is not None:
        raise SkillRefused("beside", f"{_shown(beside)} lies outside of the folder of SKILL.md", _shown(beside))
    return {path.removeprefix(folder): content for path, content in files.items()}


# text ------------------------------------------------------------------------------------------------------------


def _text(path: str, data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise SkillRefused("not_text", f"{_shown(path)} is not UTF-8 text", _shown(path)) from error
    if "\0" in text:
        raise SkillRefused("not_text", f"{_shown(path)} has NUL bytes", _shown(path))
    return text


def _required(front: FrontMatter, key: str) -> str:
    value = front.values.get(key, "").strip()
    if not value:
        field = key.rpartition(".")[2]
        raise SkillRefused(f"{field}_missing", f"the front matter of SKILL.md has no {field}", SKILL_MD, front.lines.get(key))
    return value


def _check(front: FrontMatter, key: str, holds: bool, sentence: str) -> None:
    if not holds:
        raise SkillRefused(f"bad_{key}", sentence, SKILL_MD, front.lines.get(key))


def _has_controls(text: str) -> bool:
    return any(unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") or "\u202a" <= sign <= "\u202e" or "\u2066" <= sign <= "\u2069" for sign in text)


def _shown(path: str) -> str:
    """As much of an entry's name as a sentence holds, without what the eye does not see."""
    plain = "".join(one if one.isprintable() else "\ufffd" for one in path)
    return plain.encode()[:SHOWN_PATH_BYTES].decode(errors="ignore")
