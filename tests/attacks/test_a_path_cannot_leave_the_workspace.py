"""Spellings that lead elsewhere, kernel links that do, and mounts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_builder.capsule import safe_open
from tests.support.capability import ToolRun, make_run, put

ESCAPES = [
    "../outside.txt", "a/../../outside.txt", "/etc/passwd", "//etc/passwd", "./../outside.txt", "a/./../../outside.txt", "..", "", ".", "a\0b",
    "~/outside.txt", "%2e%2e/outside.txt", "..\\outside.txt", "a/..", "file:///etc/passwd", "x" * 256, "a/" * 40 + "b",
]


@pytest.fixture
def run(tmp_path: Path) -> ToolRun:
    run = make_run(tmp_path)
    put(tmp_path, "outside.txt", "the secret outside\n")
    put(run.workspace, "a/inside.txt", "x\n")
    return run


@pytest.mark.parametrize("path", ESCAPES)
async def test_no_spelling_leads_out(run: ToolRun, tmp_path: Path, path: str) -> None:
    for tool_id, arguments in (("file/read_text", {}), ("file/stat", {}), ("file/edit", {"old": "secret", "new": "x"})):
        result = await run.call(tool_id, path=path, **arguments)
        assert result.outcome == "refused"
        assert "secret" not in result.text
    assert (await run.call("file/glob", pattern=path)).text.count("outside") <= 1  # the pattern itself
    assert (tmp_path / "outside.txt").read_text() == "the secret outside\n"
    assert sorted(os.listdir(tmp_path)) == ["outside.txt", "runs", "workspace"]


@pytest.mark.parametrize("path", ["../new.txt", "/tmp/agent-builder-attack.txt", "a/../../new.txt"])
async def test_nothing_is_created_outside(run: ToolRun, tmp_path: Path, path: str) -> None:
    assert (await run.call("file/write", path=path, content="x")).code == "path"
    assert not (tmp_path / "new.txt").exists()
    assert not Path("/tmp/agent-builder-attack.txt").exists()


@pytest.mark.parametrize("target", ["/proc/self/root", "/proc/self/cwd", "/proc/self/fd"])
async def test_the_links_of_proc_are_refused(run: ToolRun, target: str) -> None:
    (run.workspace / "door").symlink_to(target)
    for path in ("door", "door/etc/hostname", "door/0"):
        assert (await run.call("file/read_text", path=path)).code == "symlink"


MOUNT = """
import errno, sys
from pathlib import Path
from agent_builder.capsule import safe_open
from agent_builder.capsule.paths import FileRefused, parse_path
workspace, mode = Path(sys.argv[1]), sys.argv[2]
if mode == "walk":
    def absent(parent, name):
        raise OSError(errno.ENOSYS, "no openat2")
    safe_open._openat2 = absent
for path in ("mounted/secret.txt", "mounted.txt"):
    try:
        print(safe_open.read_file(workspace, parse_path(path)))
    except FileRefused as refusal:
        print(refusal.reason)
"""


@pytest.mark.parametrize("mode", ["openat2", "walk"])
def test_a_bind_mount_is_refused_even_from_the_same_file_system(run: ToolRun, tmp_path: Path, mode: str) -> None:
    outside = put(tmp_path, "elsewhere/secret.txt", "the secret outside\n")
    (run.workspace / "mounted").mkdir(mode=0o700)
    put(run.workspace, "mounted.txt", "")
    script = (
        f"mount --bind {outside.parent} {run.workspace}/mounted && mount --bind {outside} {run.workspace}/mounted.txt && "
        f'exec "$0" -c "$1" {run.workspace} {mode}'
    )
    spaces = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
    done = subprocess.run(
        ["unshare", *spaces, "sh", "-c", script, sys.executable, MOUNT], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(safe_open.__file__).parents[2])},
    )
    assert done.stdout.split() == ["device", "device"], done.stderr


MOUNTED_MEANWHILE = """
import asyncio, subprocess, sys
from pathlib import Path
from agent_builder.tools import file_write
from tests.support.capability import make_run
root, when = Path(sys.argv[1]), sys.argv[2]
run = make_run(root)
def mount(*_):
    subprocess.run(["mount", "--bind", root / "elsewhere", run.workspace / "d"], check=True)
if when == "asked":
    run.operator = mount
else:
    real = file_write.replace_file
    def late(*arguments):
        mount()
        real(*arguments)
    file_write.replace_file = late
async def main():
    await run.call("file/read_text", path="d/n.txt")
    result = await run.call("file/edit", path="d/n.txt", old="one", new="two")
    print(result.outcome, result.code)
asyncio.run(main())
"""


@pytest.mark.parametrize("when", ["asked", "approved"])
def test_a_directory_that_is_mounted_over_while_the_card_is_open_is_not_written_to(tmp_path: Path, when: str) -> None:
    inside, outside = put(tmp_path, "workspace/d/n.txt", "one\n"), put(tmp_path, "elsewhere/n.txt", "one\n")
    (tmp_path / "workspace").chmod(0o700)
    spaces = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
    places = f"{Path(safe_open.__file__).parents[2]}:{Path(__file__).parents[2]}"
    done = subprocess.run(
        ["unshare", *spaces, sys.executable, "-c", MOUNTED_MEANWHILE, str(tmp_path), when], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": places},
    )
    assert done.stdout.split() == ["refused", "permission_stale"], done.stderr
    assert (inside.read_text(), outside.read_text()) == ("one\n", "one\n")
    assert os.listdir(outside.parent) == ["n.txt"]
