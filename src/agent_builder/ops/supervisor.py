"""Supervisor: the one process that owns the Gateway and, where it is wanted, the embedded model server.

It starts them, keeps their output in bounded logs, restarts the model server a few times, and ends them in order: Gateway,
model server, run roots, records. SIGTERM stops, SIGUSR1 stops with the short deadline. It tells its starter on stdout what
happened, one JSON line per event: `{"event": "supervising" | "gateway" | "failed", "message": …}`.
"""

import ctypes
import fcntl
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from agent_builder.ops.local_mode import LocalMode, command, parse_modes
from agent_builder.ops.log_rotation import RotatingLog
from agent_builder.ops.records import Role, lock_path, record_text, remove_record, write_record
from agent_builder.ops.run_roots import remove_unused_roots
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.limits import (
    FAILURE_LINE_BYTES,
    LOG_BATCH_BYTES,
    LOG_FLUSH_S,
    MODEL_SERVER_RESTARTS,
    MODEL_SERVER_STOP_S,
    ROOT_RELEASE_S,
    STOP_FORCED_S,
    STOP_S,
)
from agent_builder.sandbox.process_identity import identify

PREFIX = b"agent-builder: "
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class Phase(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


@dataclass(slots=True)
class Child:
    """A running process of ours. `said`: its last line that was meant for the operator."""

    role: Role
    process: subprocess.Popen[bytes]
    pidfd: int
    log: RotatingLog
    said: str = ""
    listening: int = 0
    partial: dict[int, bytes] = field(default_factory=dict)


class Supervisor:
    """`environment` is what the Gateway gets; `mode` None means no embedded model."""

    def __init__(self, checkout: Checkout, mode: LocalMode | None, environment: dict[str, str], port: int) -> None:
        self.checkout, self.mode, self.environment, self.port = checkout, mode, environment, port
        self.phase = Phase.STARTING
        self.exit_code = 0
        self.children: dict[Role, Child] = {}
        self.kill_at: dict[Role, float] = {}
        self.restarts = 0
        self.flush_at = 0.0
        self.model_port = 0
        self.selector = selectors.DefaultSelector()
        self._deaf = False

    def run(self) -> int:
        """Returns the exit code once no child is left. The caller holds the supervisor lock."""
        self._listen_to_signals()
        write_record(self.checkout.control_plane, Role.SUPERVISOR, identify(os.getpid()))
        self.report("supervising")
        self._start_model() if self.mode else self._start_gateway()
        while self.children:
            for key, _ in self.selector.select(self._patience()):
                key.data()
            self._after_deadlines()
        self._clean()
        return self.exit_code

    # -- children ---------------------------------------------------------------------------------

    def _start_gateway(self) -> None:
        if self.phase is Phase.STOPPING:
            return
        self._spawn(Role.GATEWAY, [sys.executable, "-m", "agent_builder"], self.environment, self.port)
        self.phase = Phase.RUNNING
        self.report("gateway")

    def _start_model(self) -> None:
        mode = self.mode
        if mode is None:
            return
        arguments = ["serve", "--port", str(self.model_port), *mode.arguments()]
        self._spawn(Role.MODEL_SERVER, [*command(self.checkout), *arguments], dict(os.environ), port=0)  # its record names the port once it listens

    def _spawn(self, role: Role, arguments: list[str], environment: dict[str, str], port: int) -> None:
        process = subprocess.Popen(
            arguments,
            cwd=self.checkout.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 — this process has one thread
        )
        log = RotatingLog(self.checkout.control_plane / f"{role}.log")
        child = Child(role, process, os.pidfd_open(process.pid), log)
        self.children[role] = child
        write_record(self.checkout.control_plane, role, identify(process.pid), port)
        self.selector.register(child.pidfd, selectors.EVENT_READ, lambda: self._ended(child))
        for pipe in (process.stdout, process.stderr):
            self._watch(child, pipe)

    def _watch(self, child: Child, pipe: IO[bytes] | None) -> None:
        assert pipe is not None
        os.set_blocking(pipe.fileno(), False)
        self.selector.register(pipe, selectors.EVENT_READ, lambda: self._read(child, pipe))

    def _read(self, child: Child, pipe: IO[bytes]) -> bool:
        """True when there may be more."""
        try:
            data = os.read(pipe.fileno(), LOG_BATCH_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self.selector.unregister(pipe)
            pipe.close()
            return False
        child.log.write(data)
        *lines, rest = (child.partial.get(pipe.fileno(), b"") + data).split(b"\n")
        child.partial[pipe.fileno()] = rest[-FAILURE_LINE_BYTES:]
        for line in lines:
            self._line(child, line[:FAILURE_LINE_BYTES])
        return True

    def _line(self, child: Child, line: bytes) -> None:
        if line.startswith(PREFIX):
            child.said = line[len(PREFIX) :].decode("utf-8", "replace")
        elif child.role is Role.MODEL_SERVER and not child.listening and line.startswith(b'{"listening"'):
            child.listening = self.model_port = int(json.loads(line)["listening"])
            write_record(self.checkout.control_plane, child.role, identify(child.process.pid), self.model_port)
            if Role.GATEWAY not in self.children:
                self._start_gateway()

    def _ended(self, child: Child) -> None:
        for pipe in (child.process.stdout, child.process.stderr):
            while pipe is not None and not pipe.closed and self._read(child, pipe):
                pass
            if pipe is not None and not pipe.closed:  # a grandchild may still hold the other end
                self.selector.unregister(pipe)
                pipe.close()
        code = child.process.wait()
        self.selector.unregister(child.pidfd)
        os.close(child.pidfd)
        child.log.write(f"[{child.role} ended with {_code(code)}]\n".encode())
        child.log.flush()
        del self.children[child.role]
        self.kill_at.pop(child.role, None)
        remove_record(self.checkout.control_plane, child.role)
        self._after_end(child, code)

    def _after_end(self, child: Child, code: int) -> None:
        if self.phase is Phase.STOPPING:
            self._end_model()
        elif child.role is Role.MODEL_SERVER and child.listening and self.restarts < MODEL_SERVER_RESTARTS:
            self.restarts += 1
            self._start_model()
        elif child.role is Role.GATEWAY or Role.GATEWAY not in self.children:
            self.exit_code = 1
            self.report("failed", child.said or f"the {child.role} ended with {_code(code)}; see {child.log.path}")
            self._stop(STOP_S)

    # -- the end ----------------------------------------------------------------------------------

    def _stop(self, deadline_s: float, number: signal.Signals = signal.SIGTERM) -> None:
        """Called again, it can only shorten the deadline."""
        self.phase = Phase.STOPPING
        gateway = self.children.get(Role.GATEWAY)
        if gateway is None:
            self._end_model()
            return
        signal.pidfd_send_signal(gateway.pidfd, number)
        until = time.monotonic() + deadline_s
        self.kill_at[Role.GATEWAY] = min(until, self.kill_at.get(Role.GATEWAY, until))

    def _end_model(self) -> None:
        model = self.children.get(Role.MODEL_SERVER)
        if model is not None and Role.MODEL_SERVER not in self.kill_at:
            signal.pidfd_send_signal(model.pidfd, signal.SIGTERM)
            self.kill_at[Role.MODEL_SERVER] = time.monotonic() + MODEL_SERVER_STOP_S

    def _after_deadlines(self) -> None:
        now = time.monotonic()
        for role, at in list(self.kill_at.items()):
            if now >= at and role in self.children:
                signal.pidfd_send_signal(self.children[role].pidfd, signal.SIGKILL)
                del self.kill_at[role]
        if now >= self.flush_at:
            self.flush_at = now + LOG_FLUSH_S
            for child in self.children.values():
                child.log.flush()

    def _patience(self) -> float | None:
        waits = [max(0.0, at - time.monotonic()) for at in self.kill_at.values()]
        if any(child.log.pending for child in self.children.values()):
            waits.append(LOG_FLUSH_S)
        return min(waits, default=None)

    def _clean(self) -> None:
        left = wait_for_unused_roots(self.checkout.agents_runtime)
        for root in left:
            print(f"agent-builder: {root} is still used by a process and was left", file=sys.stderr)
        for role in Role:
            remove_record(self.checkout.control_plane, role)

    # -- signals and reports ----------------------------------------------------------------------

    def _listen_to_signals(self) -> None:
        read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.selector.register(read, selectors.EVENT_READ, lambda: self._signalled(os.read(read, LOG_BATCH_BYTES)))

    def _signalled(self, numbers: bytes) -> None:
        if signal.SIGUSR1 in numbers:
            self._stop(STOP_FORCED_S, signal.SIGUSR1)
        elif numbers:
            self._stop(STOP_S)

    def report(self, event: str, message: str = "") -> None:
        if self._deaf:
            return
        try:
            os.write(1, (json.dumps({"event": event, "message": message}) + "\n").encode())
        except OSError:
            self._deaf = True  # the starter is gone; nobody needs to know


def wait_for_unused_roots(agents_runtime: Path) -> list[Path]:
    """Removes the roots; gives Workers that lost their Gateway a moment to end. Returns what is still in use."""
    until = time.monotonic() + ROOT_RELEASE_S
    while (left := remove_unused_roots(agents_runtime)) and time.monotonic() < until:
        time.sleep(ROOT_RELEASE_S / 10)
    return left


def hold_lock(path: Path) -> IO[str] | None:
    """The file of a lock that ends with its process; None when another process holds it."""
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    file.truncate(0)
    file.write(record_text(Role.SUPERVISOR, identify(os.getpid())))
    file.flush()
    return file


def _end_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _code(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def main(argument: str) -> int:
    """`argument` is JSON: root, port, modes, model_file."""
    told: dict[str, Any] = json.loads(argument)
    checkout = Checkout(Path(told["root"]))
    lock = hold_lock(lock_path(checkout.control_plane))
    if lock is None:
        print(json.dumps({"event": "failed", "message": "another supervisor of this checkout is running"}), flush=True)
        return 1
    mode = None
    if told["modes"] or told["model_file"]:
        modes = parse_modes(",".join(told["modes"])) if told["modes"] else ()
        mode = LocalMode(modes, Path(told["model_file"]) if told["model_file"] else None)
    with lock:
        supervisor = Supervisor(checkout, mode, dict(os.environ), told["port"])
        try:
            return supervisor.run()
        except OSError as error:
            supervisor.report("failed", str(error))
            raise  # the children end with this process


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
