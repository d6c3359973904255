"""The sealed worker environment of one Agent generation: exactly the files a confined process may load.

    <target>/manifest.json          every other file and its SHA-256
    <target>/closed.bpf foreign.bpf  the seccomp programs
    <target>/worker/                `python -I -S -B <target>/worker` starts the Worker
    <target>/command/               the same for a confined command
    <target>/document/              the same for a parser of documents
    <target>/worker/agent_builder/  the named modules, compiled
"""

import json
import os
import py_compile
import shutil
import sys
from pathlib import Path

import agent_builder
from agent_builder.protocol.digest import canonical_json, digest_bytes
from agent_builder.protocol.errors import SandboxFailed
from agent_builder.sandbox.bpf_build import build_programs
from agent_builder.storage.private_files import write_private

_MODULES = {
    "protocol": ("digest", "frames", "framing", "ids", "limits", "tool_catalog", "toolspec"),
    "sandbox": ("command_stub", "confine", "landlock", "linux_calls", "probes", "profiles", "released", "rlimits", "seccomp", "skill_script"),
    "worker": ("document_docx", "document_html", "document_pdf", "document_stub", "document_text", "host_link", "kernel"),
}
_PROGRAMS = {"command": "sandbox.command_stub", "document": "worker.document_stub"}
_PROGRAM_MAIN = '''\
"""A confined program; agent_builder.{module} tells the rest."""

import os
import sys

WORKER_ENV = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(WORKER_ENV, "worker"))

from agent_builder.{module} import main

sys.exit(main(WORKER_ENV))
'''


def write_worker_env(target: Path) -> None:
    """Writes the environment beside `target`, then renames it there; an earlier one is replaced. Its parent must exist.
    Files are 0600, directories 0700. Raises SandboxFailed and OSError."""
    building = target.with_name(target.name + ".building")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(mode=0o700)
    _write_packages(building / "worker")
    for name, module in _PROGRAMS.items():
        _write(building / name / "__main__.py", _PROGRAM_MAIN.format(module=module).encode())
    for name, program in build_programs().items():
        _write(building / f"{name}.bpf", program)
    _compile_all(building)
    _write(building / "manifest.json", canonical_json(_digests(building)))
    shutil.rmtree(target, ignore_errors=True)
    building.rename(target)


def verify_worker_env(target: Path) -> None:
    """Raises SandboxFailed unless the directory holds exactly the files that its manifest lists, unchanged, and this program
    would write the same."""
    try:
        listed = json.loads((target / "manifest.json").read_bytes())
    except (OSError, ValueError) as error:
        raise SandboxFailed("The worker environment has no readable manifest; upgrade the Agent.") from error
    found = _digests(target)
    if found != listed:
        raise SandboxFailed("The worker environment was changed; upgrade the Agent.")
    if any(found.get(name) != digest_bytes(content) for name, content in _sources().items()):
        raise SandboxFailed("The worker environment belongs to another version; upgrade the Agent.")


def _sources() -> dict[str, bytes]:
    """What the environment is made from, by its path there."""
    root = Path(agent_builder.__file__).parent
    files = {"worker/agent_builder/__init__.py": root / "__init__.py", "worker/__main__.py": root / "worker" / "__main__.py"}
    for room, modules in _MODULES.items():
        for module in ("__init__", *modules):
            files[f"worker/agent_builder/{room}/{module}.py"] = root / room / f"{module}.py"
    programs = {f"{name}.bpf": program for name, program in build_programs().items()}
    return {name: path.read_bytes() for name, path in files.items()} | programs


def _write_packages(worker: Path) -> None:
    for name, content in _sources().items():
        if name.startswith("worker/"):
            _write(worker.parent / name, content)


def _compile_all(root: Path) -> None:
    """Unchecked bytecode: the manifest vouches for the files, so no start compares times or sources."""
    for source in sorted(root.rglob("*.py")):
        # Where an isolated interpreter looks, whatever PYTHONPYCACHEPREFIX says to this one.
        cache = str(source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc")
        Path(cache).parent.mkdir(mode=0o700, exist_ok=True)
        shown = str(source.relative_to(root))
        py_compile.compile(
            str(source), cfile=cache, dfile=shown, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )
        os.chmod(cache, 0o600)


def _digests(root: Path) -> dict[str, str]:
    """Every regular file but the manifest. Anything else that is no directory has the digest "not a file"."""
    entries = (path for path in sorted(root.rglob("*")) if path.is_symlink() or not path.is_dir())
    return {str(path.relative_to(root)): _digest(path) for path in entries if path != root / "manifest.json"}


def _digest(path: Path) -> str:
    return digest_bytes(path.read_bytes()) if path.is_file() and not path.is_symlink() else "not a file"


def _write(path: Path, content: bytes) -> None:
    for directory in reversed(path.parents):
        directory.mkdir(mode=0o700, exist_ok=True)
    write_private(path, content)
