"""start.sh and stop.sh of a real checkout in a folder with blanks, quotes and Chinese characters, called by a careless shell."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.checkout_copy import NOTHING_LEFT, CheckoutCopy
from tests.support.fake_ollama import FakeOllama, Gate, gated, text


@pytest.fixture
async def copy(tmp_path: Path, fake: FakeOllama) -> AsyncIterator[CheckoutCopy]:
    async with CheckoutCopy(tmp_path, fake.port) as copy:
        yield copy


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any checkout."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, cwd=tmp_path) as process:
        yield process
        assert process.poll() is None, "a stranger was ended"
        process.communicate(b"\n")


async def gone(*pids: int) -> None:
    """Returns when none of these processes is left."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(descriptor, ended.set)
        async with asyncio.timeout(30):
            await ended.wait()
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)


async def test_a_start_tells_where_to_go_and_never_the_token(copy: CheckoutCopy, fake: FakeOllama) -> None:
    started = copy.sh("start.sh")
    token = (copy.root / ".runtime/secrets/web-bootstrap-token").read_text().strip()
    assert (started.returncode, started.stderr) == (0, "")
    assert f"http://127.0.0.1:{copy.port}" in started.stdout
    assert "/.runtime/secrets/web-bootstrap-token (just created)" in started.stdout
    assert len(token) == 64
    assert token not in started.stdout
    fake.script(text("hello"))
    await copy.login()
    result = await copy.run(await copy.new_conversation(), "hi")
    assert (result.terminal["type"], result.text) == ("run.completed", "hello")
    stopped = copy.sh("stop.sh")
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert copy.left_behind() == NOTHING_LEFT


async def test_everything_the_program_made_is_private_even_under_a_hostile_umask(copy: CheckoutCopy) -> None:
    assert copy.sh("start.sh").returncode == 0
    open_to_others = [
        str(path.relative_to(copy.root))
        for top in (copy.root / ".runtime", copy.root / "data")
        for path in [top, *top.rglob("*")]
        if not path.is_symlink() and path.stat().st_mode & 0o077
    ]
    assert open_to_others == []


async def test_the_shell_text_in_the_folders_name_is_never_run(copy: CheckoutCopy, tmp_path: Path) -> None:
    assert copy.sh("start.sh", cwd=tmp_path).returncode == 0
    assert copy.sh("stop.sh", cwd=tmp_path).returncode == 0
    assert not list(tmp_path.rglob("x"))


async def test_a_checkout_reached_through_a_link_works(copy: CheckoutCopy, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(copy.root)
    started = subprocess.run([link / "start.sh"], env=copy.environ(), capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (started.returncode, started.stderr) == (0, "")
    assert copy.sh("stop.sh").returncode == 0


async def test_a_second_start_changes_nothing(copy: CheckoutCopy) -> None:
    copy.sh("start.sh")
    gateway = copy.recorded("gateway")
    again = copy.sh("start.sh")
    assert (again.returncode, again.stdout) == (0, f"agent-builder: already running at http://127.0.0.1:{copy.port}\n")
    assert copy.recorded("gateway") == gateway


async def test_of_several_starts_at_once_exactly_one_wins(copy: CheckoutCopy) -> None:
    starts = [await copy.spawn("start.sh") for _ in range(4)]
    outputs = [await start.communicate() for start in starts]
    assert [start.returncode for start in starts] == [0, 0, 0, 0], outputs
    assert sum(b"already running" in out for out, _ in outputs) == 3
    modules = [Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:3] for pid in copy.processes()]
    assert modules.count([b"-m", b"agent_builder"]) == 1
    assert copy.sh("stop.sh").returncode == 0
    assert copy.left_behind() == NOTHING_LEFT


async def test_a_stop_during_a_start_leaves_nothing(copy: CheckoutCopy, fake: FakeOllama) -> None:
    loading = Gate()
    fake.load_step = gated(loading, text("x"))
    start = await copy.spawn("start.sh")
    assert start.stdout is not None
    while b"http://" not in await start.stdout.readline():
        pass
    assert copy.sh("stop.sh").returncode == 0
    loading.open()
    _, said = await start.communicate()
    assert start.returncode == 1
    assert said.startswith(b"agent-builder: it was stopped while it started")
    assert copy.left_behind() == NOTHING_LEFT


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_start_is_rolled_back(copy: CheckoutCopy, fake: FakeOllama, number: signal.Signals) -> None:
    loading = Gate()
    fake.load_step = gated(loading, text("x"))
    start = await copy.spawn("start.sh")
    assert start.stdout is not None
    while b"http://" not in await start.stdout.readline():
        pass
    start.send_signal(number)
    loading.open()
    _, said = await start.communicate()
    assert (start.returncode, said) == (1, b"agent-builder: interrupted; everything was stopped again\n")
    assert copy.left_behind() == NOTHING_LEFT


async def test_stopping_twice_and_stopping_nothing_are_fine(copy: CheckoutCopy) -> None:
    never = copy.sh("stop.sh")
    copy.sh("start.sh")
    first, second = copy.sh("stop.sh"), copy.sh("stop.sh", "--force")
    assert [each.returncode for each in (never, first, second)] == [0, 0, 0]
    assert [each.stdout.splitlines()[-1] for each in (never, first, second)] == [
        "agent-builder: not running", "agent-builder: stopped", "agent-builder: not running",
    ]  # fmt: skip


async def test_a_model_host_that_does_not_answer_stops_the_start_with_one_line(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        async with CheckoutCopy(tmp_path, nobody.getsockname()[1]) as copy:
            refused = copy.sh("start.sh")
            assert refused.returncode == 1
            assert refused.stderr.startswith("agent-builder: ")
            assert refused.stderr.count("\n") == 1
            assert "--local-model" in refused.stderr
            assert copy.left_behind() == NOTHING_LEFT


async def test_a_catalog_with_an_error_stops_the_start_with_its_line(copy: CheckoutCopy) -> None:
    copy.catalog.write_text("nonsense = 1\n" + copy.catalog.read_text())
    refused = copy.sh("start.sh")
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "nonsense" in refused.stderr
    assert copy.left_behind() == NOTHING_LEFT


async def test_a_catalog_named_by_a_relative_path_is_the_callers(copy: CheckoutCopy, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(copy.catalog.read_text())
    (tmp_path / "own.toml").chmod(0o600)
    started = copy.sh("start.sh", cwd=tmp_path, AGENT_BUILDER_MODEL_CATALOG="own.toml")
    assert (started.returncode, started.stderr) == (0, "")


async def test_a_port_in_use_is_named_and_its_owner_left_alone(copy: CheckoutCopy) -> None:
    with socket.create_server(("127.0.0.1", copy.port)) as owner:
        refused = copy.sh("start.sh")
        assert (refused.returncode, refused.stderr) == (
            4, f"agent-builder: port {copy.port} is in use by another program; set AGENT_BUILDER_PORT to a free one\n",
        )  # fmt: skip
        socket.create_connection(owner.getsockname()).close()
    assert copy.left_behind() == NOTHING_LEFT


@pytest.mark.parametrize("port", ["0", "65536", "x", "-1"])
async def test_a_port_that_is_none_is_a_wrong_argument(copy: CheckoutCopy, port: str) -> None:
    refused = copy.sh("start.sh", AGENT_BUILDER_PORT=port)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


async def test_a_record_of_a_stranger_never_gets_it_signalled(copy: CheckoutCopy, stranger: subprocess.Popen[bytes]) -> None:
    copy.sh("start.sh")
    supervisor = copy.recorded("supervisor")
    copy.kill_recorded("gateway")
    await gone(supervisor)
    for text_ in (str(stranger.pid), json.dumps({"pid": stranger.pid, "start_time": 1, "boot_id": "x", "role": "gateway", "port": 1}), "1", ""):
        (copy.control_plane / "gateway.pid").write_text(text_)
        stopped = copy.sh("stop.sh", "--force")
        assert stopped.returncode == 5
        assert "identity mismatch" in stopped.stderr
    (copy.control_plane / "supervisor.pid").write_text(str(stranger.pid))
    assert copy.sh("start.sh").returncode == 0
    assert copy.sh("stop.sh").returncode == 0
    assert copy.left_behind() == NOTHING_LEFT


async def test_a_lost_record_of_a_living_supervisor_is_no_lost_supervisor(copy: CheckoutCopy, stranger: subprocess.Popen[bytes]) -> None:
    copy.sh("start.sh")
    (copy.control_plane / "supervisor.pid").write_text(str(stranger.pid))
    assert b"already running" in copy.sh("start.sh").stdout.encode()
    assert copy.sh("stop.sh").returncode == 0
    assert copy.left_behind() == NOTHING_LEFT


async def test_a_second_checkout_is_untouched_by_a_stop(copy: CheckoutCopy, tmp_path: Path, fake: FakeOllama) -> None:
    async with CheckoutCopy(tmp_path / "second", fake.port) as other:
        copy.sh("start.sh")
        other.sh("start.sh")
        record = (other.control_plane / "gateway.pid").read_text()
        (copy.control_plane / "gateway.pid").write_text(record)
        copy.sh("stop.sh")
        assert (await other.client.get("/health")).json()["status"] == "ready"


async def test_a_killed_gateway_takes_its_supervisor_along_and_the_next_start_works(copy: CheckoutCopy) -> None:
    copy.sh("start.sh")
    supervisor = copy.recorded("supervisor")
    copy.kill_recorded("gateway")
    await gone(supervisor)
    assert copy.left_behind() == NOTHING_LEFT
    assert copy.sh("start.sh").returncode == 0


async def test_a_start_replaces_a_gateway_whose_supervisor_was_killed(copy: CheckoutCopy) -> None:
    copy.sh("start.sh")
    gateway = copy.recorded("gateway")
    copy.kill_recorded("supervisor")
    started = copy.sh("start.sh")
    assert (started.returncode, started.stderr) == (0, "")
    await gone(gateway)
    assert copy.recorded("gateway") != gateway
    assert copy.sh("stop.sh").returncode == 0
    assert copy.left_behind() == NOTHING_LEFT


@pytest.mark.parametrize("arguments", [[], ["--force"]])
async def test_a_stop_ends_runs_and_streams_that_nobody_reads(copy: CheckoutCopy, fake: FakeOllama, arguments: list[str]) -> None:
    copy.sh("start.sh")
    await copy.login()
    conversation = await copy.new_conversation()
    never = Gate()
    fake.script(gated(never, text("too late")))
    run = await copy.submit(conversation, "hi")
    await fake.asked(1)
    cookie = "; ".join(f"{name}={value}" for name, value in copy.client.cookies.items())
    reader = socket.create_connection(("127.0.0.1", copy.port))
    reader.sendall(f"GET {copy.agent}/runs/{run['run_id']}/events HTTP/1.1\r\nHost: 127.0.0.1:{copy.port}\r\nCookie: {cookie}\r\n\r\n".encode())
    reader.recv(1)
    stopped = copy.sh("stop.sh", *arguments)
    never.open()
    reader.close()
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert (copy.control_plane / "gateway.log").read_text().rstrip().endswith("[gateway ended with exit code 0]")
    assert copy.left_behind() == NOTHING_LEFT
    assert not list((copy.root / "data").rglob("*-wal"))
    assert copy.sh("start.sh").returncode == 0
    await copy.login()
    (turn,) = (await copy.page(conversation))["turns"]
    assert turn["state"] in ("cancelled", "interrupted")


async def test_stopping_works_without_the_environment(copy: CheckoutCopy) -> None:
    copy.sh("start.sh")
    (copy.root / ".venv").rename(copy.root / ".venv.purged")
    assert copy.sh("stop.sh").returncode == 0
    assert copy.left_behind() == NOTHING_LEFT
