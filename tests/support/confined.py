"""Real confined children for the tests of the sandbox, the Worker and the attacks."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_builder.capsule.worker_env import write_worker_env
from agent_builder.protocol.frames import HostFrame, WorkerFrame, parse_worker, to_message
from agent_builder.protocol.framing import decode_frame, encode_frame
from agent_builder.sandbox.launch import command_command, release_line, worker_command, worker_environment
from agent_builder.sandbox.probes import Targets

SECRET = "a confined process must never read this"
ATTACKER = Path(__file__).with_name("attacker.py")


@pytest.fixture(scope="session")
def worker_env(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("generation").resolve() / "worker-env"
    write_worker_env(target)
    return target


@pytest.fixture
def targets(tmp_path: Path) -> Iterator[Targets]:
    """What the probes aim at; the working directory of the child is `run_root`, beside it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    canary = outside / "canary"
    canary.write_text(SECRET, encoding="utf-8")
    canary.chmod(0o666)
    name = f"agent-builder-test-{os.urandom(8).hex()}"
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix, canary.open("r+b") as inherited:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        unix.bind("\0" + name)
        unix.listen()
        yield Targets(str(canary), "planted", os.getpid(), tcp.getsockname()[1], name, inherited.fileno())


@pytest.fixture
def run_root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "runs" / "one"
    root.mkdir(parents=True, mode=0o700)
    (root / "planted").symlink_to(tmp_path / "outside" / "canary")
    return root


class Child:
    """A confined process with pipes. `line` reads one line of its stdout."""

    def __init__(self, command: list[str], cwd: Path, environment: dict[str, str], pass_fds: tuple[int, ...] = ()) -> None:
        self.process = subprocess.Popen(
            command, cwd=cwd, env=environment, pass_fds=pass_fds, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def line(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, *frames: HostFrame) -> None:
        for frame in frames:
            self.write(encode_frame(to_message(frame)))

    def receive(self) -> WorkerFrame:
        return parse_worker(decode_frame(self.line()))

    def finish(self) -> tuple[int, str, str]:
        """Closes stdin and waits: exit status, the rest of stdout, stderr."""
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out.decode(), err.decode()


@contextlib.contextmanager
def started(command: list[str], cwd: Path, environment: dict[str, str], pass_fds: tuple[int, ...] = ()) -> Iterator[Child]:
    """A child that is killed and reaped at the end of the block."""
    child = Child(command, cwd, environment, pass_fds)
    try:
        yield child
    finally:
        child.process.kill()
        child.process.communicate()


@contextlib.contextmanager
def worker(worker_env: Path, run_root: Path, *arguments: str, pass_fds: tuple[int, ...] = ()) -> Iterator[Child]:
    with started([*worker_command(worker_env), *arguments], run_root, worker_environment(), pass_fds) as child:
        yield child


def probe_request(targets: Targets, then_die: bool = False) -> bytes:
    return json.dumps({"probe": {"targets": targets, "then_die": then_die}}).encode() + b"\n"


def attack_as_worker(worker_env: Path, run_root: Path, targets: Targets) -> dict[str, str]:
    """The outcome of every probe inside a real Worker."""
    with worker(worker_env, run_root, "--qualify", pass_fds=(targets.descriptor,)) as child:
        child.line()
        child.write(probe_request(targets))
        outcomes: dict[str, str] = json.loads(child.line())
    return outcomes


def attack_as_command(profile: str, worker_env: Path, directory: Path, targets: Targets) -> dict[str, str]:
    """The outcome of every probe inside a real command process, before it would become Bash or Git."""
    command, environment = command_command(profile, worker_env, directory)
    with started([*command, "--qualify"], directory, environment, (targets.descriptor,)) as child:
        assert child.line()
        child.write(probe_request(targets))
        status, out, err = child.finish()
    assert status == 0, err
    outcomes: dict[str, str] = json.loads(out)
    return outcomes


def attack_with(layer: str, run_root: Path, targets: Targets, names: list[str]) -> dict[str, str]:
    """The outcome of the named probes with one layer alone: see attacker.py."""
    request = json.dumps({"layer": layer, "targets": targets, "names": names})
    done = subprocess.run(
        [sys.executable, str(ATTACKER), request], cwd=run_root, capture_output=True, text=True, timeout=60,
        pass_fds=(targets.descriptor,), env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    outcomes: dict[str, str] = json.loads(done.stdout)
    return outcomes


def run_command(profile: str, worker_env: Path, directory: Path, arguments: list[str]) -> tuple[int, str, str]:
    """A whole command through its handshake: exit status, stdout, stderr."""
    command, environment = command_command(profile, worker_env, directory)
    with started(command, directory, environment) as child:
        assert child.line() == b'{"ready":true}\n'
        child.write(release_line(arguments))
        return child.finish()


def run_script(script: str, worker_env: Path, directory: Path) -> tuple[int, str, str]:
    """A whole Bash script in the domain of bounded Bash, which the real command never allows: what it could do if it did."""
    command, environment = command_command("command-bash", worker_env, directory)
    request = json.dumps({"layer": "bash", "grants": json.loads(command[-1]), "script": script})
    done = subprocess.run(
        [sys.executable, str(ATTACKER), request], cwd=directory, capture_output=True, text=True, timeout=60,
        env=environment | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return done.returncode, done.stdout, done.stderr
