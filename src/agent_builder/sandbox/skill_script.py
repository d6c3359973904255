"""Runs one Python script of a Skill inside a process that is confined already.

The seccomp program lets no more executable memory be mapped, so modules written in C must be loaded before: `import_modules` loads
those of MODULES. Modules of the standard library that are written in Python, and those of the Skill itself, are imported as they are
needed; any other C module cannot be.
"""

import importlib
import io
import os
import sys
import traceback
from types import ModuleType

MODULES = (
    "argparse", "array", "ast", "base64", "binascii", "bisect", "bz2", "calendar", "cmath", "codecs", "collections", "configparser",
    "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "enum", "fnmatch", "fractions", "functools", "gzip",
    "hashlib", "heapq", "hmac", "html.parser", "inspect", "io", "itertools", "json", "locale", "lzma", "math", "numbers", "operator",
    "pathlib", "pickle", "pprint", "random", "re", "secrets", "shlex", "statistics", "string", "struct", "textwrap", "time", "tomllib",
    "typing", "unicodedata", "urllib.parse", "xml.etree.ElementTree", "zipfile", "zlib",
)
_FAILED = 1


def import_modules() -> None:
    """Before confinement. One that this Python lacks is left out: a script that needs it says so itself."""
    for name in MODULES:
        try:
            importlib.import_module(name)
        except ImportError:
            continue


def run_script(path: str, given: str, worker_env: str) -> int:
    """The exit code. `path`: below the working directory, which is the Skill's folder. `given` is the script's stdin. SystemExit passes."""
    with open(path, encoding="utf-8") as file:
        source = file.read()
    _forget_ourselves(worker_env)
    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(path))
    sys.stdin = io.TextIOWrapper(io.BytesIO(given.encode()), encoding="utf-8")
    main = ModuleType("__main__")
    main.__file__ = path
    sys.modules["__main__"] = main
    try:
        exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)  # noqa: S102 - what the operator approved
    except Exception as fault:  # noqa: BLE001 - the end of the script: told on its stderr, without our own frame
        behind = fault.__traceback__.tb_next if fault.__traceback__ else None
        traceback.print_exception(type(fault), fault, behind)
        return _FAILED
    return 0


def _forget_ourselves(worker_env: str) -> None:
    """The script's names are its own; the kernel, not this, keeps it in its place."""
    sys.path[:] = [place for place in sys.path if not place.startswith(worker_env)]
    for name in [name for name in sys.modules if name.split(".")[0] == "agent_builder"]:
        del sys.modules[name]
