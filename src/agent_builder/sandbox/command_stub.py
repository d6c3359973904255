"""A confined command: confines itself, says READY, waits for the release, then becomes Bash or Git, compiles in place or runs a script.

Started as `python -I -S -B <worker-env>/command PROFILE GRANTS`; the handshake is described at launch.command_command. The
release is read after confinement, so nothing the model wrote is ever seen by an unconfined process.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator

from agent_builder.protocol.limits import COMMAND_NOT_EXECUTABLE_EXIT, COMMAND_REFUSED_EXIT
from agent_builder.sandbox.profiles import (
    COMMAND_BASH,
    COMMAND_COMPILE,
    GIT_STATUS,
    PROFILES,
    SKILL_SCRIPT,
    Grants,
    Profile,
)
from agent_builder.sandbox.released import released

BASH_BUILTINS = ("printf", "pwd", "true", "false")
_BASH_ARGUMENTS = ("bash", "--norc", "--noprofile", "-p", "-c", 'builtin "$@"', "b")
GIT_ARGUMENTS = (
    "git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.untrackedCache=false",
    "status", "--porcelain=v1", "--branch", "--untracked-files=no", "--ignore-submodules=all", "--no-renames",
)
ENCODINGS = ("gb18030", "gbk", "big5", "shift_jis", "euc_jp", "euc_kr", "latin_1", "utf_16", "utf_8_sig", "cp1252")


def main(worker_env: str) -> int:
    """The exit code; does not return when the process becomes Bash or Git."""
    profile = PROFILES[sys.argv[1]]
    grants = Grants(*(tuple(paths) for paths in json.loads(sys.argv[2])))
    qualify = sys.argv[3:] == ["--qualify"]
    if profile is COMMAND_COMPILE:
        import_encodings()
    if profile is SKILL_SCRIPT and not qualify:
        _import_for_scripts()
    return _act(profile, grants, released(profile, grants, worker_env, qualify=qualify), worker_env)


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
