"""How the Gateway starts confined processes: argument lists and environments. Spawn with pipes on 0, 1 and 2, close_fds,
a new session, and from the main thread (a confined process is killed when the thread that spawned it ends).
"""

import json
import os
import stat
import struct
import sys
from pathlib import Path

from agent_builder.protocol.errors import SandboxFailed
from agent_builder.protocol.limits import HANDSHAKE_BYTES
from agent_builder.sandbox.profiles import COMMAND_BASH, COMMAND_COMPILE, GIT_STATUS, SKILL_SCRIPT, Grants

_PROGRAM_DIRECTORIES = ("/usr/bin", "/bin", "/usr/local/bin")
_LIBRARY_PLACES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
_PROGRAMS = {COMMAND_BASH.name: "bash", GIT_STATUS.name: "git"}
_ELF_HEADER = struct.Struct("=4sB11xHHIQQQIHHH")  # source: elf(5), 64-bit little-endian
_ELF_SEGMENT = struct.Struct("=IIQQQQ")
_INTERPRETER_SEGMENT = 3


def interpreter() -> str:
    """The Python binary behind a virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def worker_command(worker_env: Path) -> list[str]:
    """The Worker; its working directory must be its run root."""
    return [interpreter(), "-I", "-S", "-B", str(worker_env / "worker")]


def worker_environment() -> dict[str, str]:
    """TMPDIR is relative because the root of a spare Worker is renamed."""
    return {"LC_ALL": "C.UTF-8", "TMPDIR": "."}


def command_command(profile_name: str, worker_env: Path, directory: Path) -> tuple[list[str], dict[str, str]]:
    """Argument list and environment of a confined command with `directory` (resolved) as its working directory.

    `command-bash` gets no right in the directory; the others may read it. Raises SandboxFailed
    when the program is not installed.

    Handshake: the process confines itself and prints READY_LINE on stdout. The Gateway checks it with `verify_confined` and
    writes one `release_line(arguments)` to its stdin, then closes stdin. From then on stdout and stderr are the command's.
    The arguments are: for `command-bash` one of printf, pwd, true, false and its arguments; for `skill-script` the path of
    the script below `directory` and its input; for the others none.
    """
    grants = _grants(profile_name, directory)
    command = [interpreter(), "-I", "-S", "-B", str(worker_env / "command"), profile_name, json.dumps(grants)]
    return command, _environment(profile_name, directory)


def document_command(kind: str, worker_env: Path, copy: Path, library: Path | None) -> tuple[list[str], dict[str, str]]:
    """Argument list and environment of a confined parser, with the same handshake. `kind`: one of worker/document_stub.KINDS. It reads
    the file `copy`, the standard library and, where the kind needs one, the directory `library` (both resolved); before it is
    confined it imports from them and nothing else. Released with two arguments: the first character and the number of characters."""
    read = (str(copy), os.path.dirname(os.path.realpath(os.__file__)), *((str(library),) if library else ()))
    command = [interpreter(), "-I", "-S", "-B", str(worker_env / "document"), kind, json.dumps(Grants(read=read)), str(library or "")]
    return command, {"LC_ALL": "C.UTF-8"}


def release_line(arguments: list[str]) -> bytes:
    """Raises ValueError when the line would be longer than the command reads."""
    line = json.dumps({"arguments": arguments}).encode() + b"\n"
    if len(line) > HANDSHAKE_BYTES:
        raise ValueError("the arguments are too long")
    return line


def program_path(profile_name: str) -> str:
    """The resolved path of the one program that the profile may execute. It must belong to root or to us and be writable
    for nobody else. Raises SandboxFailed."""
    name = _PROGRAMS[profile_name]
    for directory in _PROGRAM_DIRECTORIES:
        path = os.path.realpath(f"{directory}/{name}")
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return _trusted(path)
    raise SandboxFailed(f"The program {name} is not installed.")


def dynamic_loader(path: str) -> str | None:
    """The resolved ELF interpreter of a program, or None when it has none."""
    with open(path, "rb") as file:
        header = file.read(_ELF_HEADER.size)
        if len(header) < _ELF_HEADER.size or header[:5] != b"\x7fELF\x02":
            raise SandboxFailed("A program of a confined command is no 64-bit ELF file.")
        fields = _ELF_HEADER.unpack(header)
        place, size, count = fields[6], fields[10], fields[11]
        for index in range(count):
            file.seek(place + index * size)
            kind, _, offset, _, _, length = _ELF_SEGMENT.unpack(file.read(_ELF_SEGMENT.size))
            if kind == _INTERPRETER_SEGMENT:
                file.seek(offset)
                return os.path.realpath(file.read(length).rstrip(b"\0").decode())
    return None


def _grants(profile_name: str, directory: Path) -> Grants:
    if profile_name in (COMMAND_COMPILE.name, SKILL_SCRIPT.name):
        return Grants(read=(str(directory), os.path.dirname(os.path.realpath(os.__file__))))
    program = program_path(profile_name)
    loader = dynamic_loader(program)
    return Grants(
        read=_libraries() + ((str(directory),) if profile_name == GIT_STATUS.name else ()),
        execute=(program, loader) if loader else (program,),
        device=("/dev/null",),
    )


def _libraries() -> tuple[str, ...]:
    return tuple(dict.fromkeys(os.path.realpath(place) for place in _LIBRARY_PLACES if os.path.exists(place)))


def _environment(profile_name: str, directory: Path) -> dict[str, str]:
    environment = {"LC_ALL": "C.UTF-8" if profile_name == SKILL_SCRIPT.name else "C", "PWD": str(directory)}
    if profile_name == GIT_STATUS.name:
        environment |= {
            "GIT_CEILING_DIRECTORIES": str(directory.parent),
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_OPTIONAL_LOCKS": "0",
        }
    return environment


def _trusted(path: str) -> str:
    found = os.stat(path)
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SandboxFailed(f"Others can change the program {os.path.basename(path)}.")
    return path
