"""Files that block, that act when opened, that lie about their size, or that never end."""

import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from agent_builder.capsule.paths import FileRefused
from agent_builder.capsule.safe_open import check_file
from tests.support.capability import ToolRun, make_run, put


@pytest.fixture
def run(tmp_path: Path) -> ToolRun:
    return make_run(tmp_path)


async def code(run: ToolRun, path: str) -> tuple[str, str | None]:
    result = await run.call("file/read_text", path=path)
    return result.outcome, result.code


async def test_a_fifo_is_refused_without_waiting_for_a_writer(run: ToolRun) -> None:
    os.mkfifo(run.workspace / "pipe", 0o600)
    assert await code(run, "pipe") == ("refused", "not_regular")
    assert (await run.call("file/grep", pattern="x")).text.endswith("not searched: pipe (not_regular)")


async def test_a_socket_is_refused(run: ToolRun) -> None:
    directory = os.open(run.workspace, os.O_PATH)  # the name of a socket may not be long
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"/proc/self/fd/{directory}/s")
            assert await code(run, "s") == ("refused", "not_regular")
    finally:
        os.close(directory)


async def test_a_device_is_never_opened(run: ToolRun) -> None:
    """Only root can make one; without it, what would be asked about one is asked about an existing one."""
    if os.geteuid() == 0:
        os.mknod(run.workspace / "console", stat.S_IFCHR | 0o600, os.makedev(5, 1))
        assert await code(run, "console") == ("refused", "not_regular")
    with pytest.raises(FileRefused, match="a device"):
        check_file(os.stat("/dev/zero"), "zero")


async def test_a_sparse_file_is_refused(run: ToolRun) -> None:
    put(run.workspace, "hole", b"x")
    os.truncate(run.workspace / "hole", 500_000)
    assert await code(run, "hole") == ("refused", "sparse")
    put(run.workspace, "written", b"\n" * 500_000)
    assert await code(run, "written") == ("ok", None)


async def test_a_file_that_grows_while_it_is_read_is_refused_or_read_whole(run: ToolRun) -> None:
    target = put(run.workspace, "log", "line\n" * 1000)
    stop = threading.Event()

    def grow() -> None:
        with target.open("ab", buffering=0) as file:
            for _ in range(20_000):
                if stop.is_set():
                    return
                file.write(b"line\n")

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        for start in range(1, 200):
            result = await run.call("file/read_text", path="log", start_line=start)
            assert (result.outcome, result.code) in (("ok", None), ("refused", "changing"))
            if result.outcome == "ok":
                assert set(result.text.split("\n")[1:]) <= {"line", ""}
    finally:
        stop.set()
        writer.join()
