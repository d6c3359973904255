"""A confined command: confines itself, says READY, waits for the release, then becomes Bash or Git, compiles in place or runs a script.

Started as `python -I -S -B <worker-env>/command PROFILE GRANTS`; the handshake is described at launch.command_command. The
release is read after confinement, so nothing the model wrote is ever seen by an unconfined process.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator

from agent_builder.protocol.limits import COMMAND_NOT_EXECUTABLE_EXIT, COMMAND_REFUSED_EXIT, HANDSHAKE_BYTES
from agent_builder.sandbox.confine import confine, require_confined
from agent_builder.sandbox.profiles import (
    COMMAND_BASH,
    COMMAND_COMPILE,
    GIT_STATUS,
    PROFILES,
    SKILL_SCRIPT,
    Grants,
    Profile,
)

BASH_BUILTINS = ("printf", "pwd", "true", "false")
_BASH_ARGUMENTS = ("bash", "--norc", "--noprofile", "-p", "-c", 'builtin "$@"', "b")
GIT_ARGUMENTS = (
    "git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.untrackedCache=false",
    "status", "--porcelain=v1", "--branch", "--untracked-files=no", "--ignore-submodules=all", "--no-renames",
)
READY = b'{"ready":true}\n'
ENCODINGS = ("gb18030", "gbk", "big5", "shift_jis", "euc_jp", "euc_kr", "latin_1", "utf_16", "utf_8_sig", "cp1252")


def main(worker_env: str) -> int:
    """The exit code; does not return when the process becomes Bash or Git."""
    profile = PROFILES[sys.argv[1]]
    grants = Grants(*(tuple(paths) for paths in json.loads(sys.argv[2])))
    with open(os.path.join(worker_env, f"{profile.program}.bpf"), "rb") as file:
        program = file.read()
    if profile is COMMAND_COMPILE:
        import_encodings()
    qualify = import_probes() if sys.argv[3:] == ["--qualify"] else None
    if profile is SKILL_SCRIPT and qualify is None:
        _import_for_scripts()
    confine(profile, grants, program)
    require_confined()
    os.write(1, READY)
    release = read_line()
    if not release:
        return COMMAND_REFUSED_EXIT
    message = json.loads(release)
    if qualify is not None:
        return qualify(message["probe"])
    return _act(profile, grants, [str(argument) for argument in message["arguments"]], worker_env)


def _act(profile: Profile, grants: Grants, arguments: list[str], worker_env: str) -> int:
    if profile is SKILL_SCRIPT and len(arguments) == 2:
        from agent_builder.sandbox.skill_script import run_script

        return run_script(arguments[0], arguments[1], worker_env)
    if profile is COMMAND_COMPILE and not arguments:
        return compile_tree(".")
    if profile is COMMAND_BASH and arguments and arguments[0] in BASH_BUILTINS:
        return _become(grants.execute[0], [*_BASH_ARGUMENTS, *arguments])
    if profile is GIT_STATUS and not arguments:
        return _become(grants.execute[0], list(GIT_ARGUMENTS))
    print("this command is not allowed", file=sys.stderr)
    return COMMAND_REFUSED_EXIT


def _become(program: str, arguments: list[str]) -> int:
    """Python ignores these two signals and exec would pass that on: a shell must die of a closed pipe."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execve(program, arguments, dict(os.environ))  # noqa: S606 - no shell; the program is the one granted
    except OSError as error:
        print(f"cannot execute: {error.strerror}", file=sys.stderr)
    return COMMAND_NOT_EXECUTABLE_EXIT


def compile_tree(root: str) -> int:
    """Byte-compiles every *.py below `root` in memory and writes nothing. One line `path:line: message` per file that does
    not compile, then a count; 1 if there was any, else 0."""
    paths = sorted(_python_files(root))
    faults = [fault for fault in map(_syntax_fault, paths) if fault]
    for fault in faults:
        print(fault)
    print(f"{len(paths)} files, {len(faults)} with errors")
    return 1 if faults else 0


def _python_files(root: str) -> Iterator[str]:
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _python_files(entry.path)
            elif entry.is_file(follow_symlinks=False) and entry.name.endswith(".py"):
                yield entry.path


def _syntax_fault(path: str) -> str | None:
    shown = os.path.relpath(path)
    try:
        with open(path, "rb") as file:
            compile(file.read(), shown, "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"{shown}:{error.lineno or 1}: {error.msg}"
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return f"{shown}:1: {type(error).__name__}: {error}"
    return None


def _import_for_scripts() -> None:
    from agent_builder.sandbox.skill_script import import_modules

    import_encodings()
    import_modules()


def import_encodings() -> None:
    """What a source file's coding line may name must be loaded before executable memory is refused."""
    import codecs
    import warnings

    warnings.simplefilter("ignore")
    for name in ENCODINGS:
        codecs.lookup(name)


def read_line() -> bytes:
    """One line from stdin with its line feed; empty when stdin ended before it."""
    line = b""
    while not line.endswith(b"\n") and len(line) < HANDSHAKE_BYTES:
        part = os.read(0, HANDSHAKE_BYTES - len(line))
        if not part:
            return b""
        line += part
    return line


def import_probes() -> Callable[[dict[str, list[object]]], int]:
    """The start-up qualification: tries attacks instead of a command, then dies of the last."""
    from agent_builder.sandbox.probes import PROBES, Targets, run_probes, x32_call

    def qualify(request: dict[str, list[object]]) -> int:
        found = run_probes(Targets(*request["targets"]), list(PROBES))  # type: ignore[arg-type]
        os.write(1, json.dumps(found).encode() + b"\n")
        if request.get("then_die"):
            x32_call()
        return 0

    return qualify
