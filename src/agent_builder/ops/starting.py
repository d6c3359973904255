"""start: one supervisor, one Gateway, ready or rolled back."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass

from agent_builder.ops.access_token import ensure_token
from agent_builder.ops.lifecycle import lifecycle_lock
from agent_builder.ops.local_mode import LocalMode, forget_mode, prepare, read_mode, write_mode
from agent_builder.ops.outcome import EXIT_PORT, Refused
from agent_builder.ops.readiness import Reports, await_ready
from agent_builder.ops.records import Role, Standing, find
from agent_builder.ops.stopping import end_recorded
from agent_builder.ops.supervisor import wait_for_unused_roots
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.limits import GATEWAY_PORT, HIGHEST_PORT


@dataclass(frozen=True, slots=True)
class Wish:
    """What the operator asked for: a local model, none any more, or neither (the recorded one, if any)."""

    mode: LocalMode | None = None
    forget: bool = False


def start(checkout: Checkout, wish: Wish) -> int:
    """Returns the exit code; raises Refused with the one line that says what is wrong, after everything was undone."""
    host, port = _address()
    _make_paths_absolute()
    control_plane = checkout.control_plane
    if find(control_plane, Role.SUPERVISOR).standing is Standing.ALIVE:
        return _already(checkout, wish, port)
    mode = _mode(checkout, wish)
    if mode is not None:
        prepare(checkout, mode)
    with lifecycle_lock(control_plane):
        found = {role: find(control_plane, role) for role in Role}
        if found[Role.SUPERVISOR].standing is Standing.ALIVE:
            return _already(checkout, wish, port)
        if any(each.standing is not Standing.ABSENT for each in found.values()):
            print("agent-builder: cleaning up after a run that did not end by itself", flush=True)
            end_recorded(checkout, found, forced=False)
        wait_for_unused_roots(checkout.agents_runtime)
        _refuse_used_port(host, port)
        created = ensure_token(checkout.bootstrap_token)
        process, reports = _spawn_supervisor(checkout, mode, port)
        reports.expect("supervising")
    code = _until_ready(checkout, process, reports, host, port, created)
    if wish.mode is not None:
        write_mode(checkout, wish.mode)
    return code


def _address() -> tuple[str, int]:
    host, text = os.environ.get("AGENT_BUILDER_HOST") or "0.0.0.0", os.environ.get("AGENT_BUILDER_PORT") or str(GATEWAY_PORT)  # noqa: S104
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= HIGHEST_PORT):
        raise Refused(f"AGENT_BUILDER_PORT is {text[:20]!r}, expected a number from 1 to {HIGHEST_PORT}", exit_code=2)
    return host, int(text)


def _make_paths_absolute() -> None:
    """The caller's relative paths, for processes that work in the checkout."""
    for name in ("AGENT_BUILDER_DOWNLOADS", "AGENT_BUILDER_MODEL_CATALOG"):
        if os.environ.get(name):
            os.environ[name] = os.path.abspath(os.environ[name])


def _already(checkout: Checkout, wish: Wish, port: int) -> int:
    if wish.mode is not None or wish.forget:
        raise Refused("already running; ./stop.sh first, then start with another model")
    gateway = find(checkout.control_plane, Role.GATEWAY).record
    port = gateway.port if gateway else port
    print(f"agent-builder: already running at http://127.0.0.1:{port}")
    return 0


def _mode(checkout: Checkout, wish: Wish) -> LocalMode | None:
    catalog = os.environ.get("AGENT_BUILDER_MODEL_CATALOG")
    if wish.forget:
        forget_mode(checkout)
        print("agent-builder: the local model is no longer used")
        return None
    if wish.mode is not None:
        return wish.mode
    recorded = read_mode(checkout)
    if recorded is None:
        return None
    if catalog:
        print("agent-builder: AGENT_BUILDER_MODEL_CATALOG is set, so the recorded local model is not started")
        return None
    print(f"agent-builder: using the recorded local model ({recorded.words}); ./start.sh --no-local-model forgets it", flush=True)
    return recorded


def _refuse_used_port(host: str, port: int) -> None:
    """A short look that gives a clear line; the Gateway's own bind decides."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                line = f"port {port} is in use by another program; set AGENT_BUILDER_PORT to a free one"
                raise Refused(line, EXIT_PORT) from error
            raise Refused(f"cannot listen on {host} port {port}: {error.strerror}") from error


def _spawn_supervisor(checkout: Checkout, mode: LocalMode | None, port: int) -> tuple[subprocess.Popen[bytes], Reports]:
    told = {
        "root": str(checkout.root),
        "port": port,
        "modes": mode.modes if mode else (),
        "model_file": str(mode.model_file) if mode and mode.model_file else None,
    }
    environment = {**os.environ, "AGENT_BUILDER_ROOT": str(checkout.root)}
    if mode is not None and not environment.get("AGENT_BUILDER_MODEL_CATALOG"):
        environment["AGENT_BUILDER_MODEL_CATALOG"] = str(checkout.local_model / "models.toml")
    with (checkout.control_plane / "supervisor.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "agent_builder.ops.supervisor", json.dumps(told)],
            cwd=checkout.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert process.stdout is not None
    return process, Reports(process.stdout)


def _until_ready(checkout: Checkout, process: subprocess.Popen[bytes], reports: Reports, host: str, port: int, created: bool) -> int:
    started = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # both are rolled back
    try:
        reports.expect("gateway")
        status = await_ready(reports, host, port, lambda: _announce(checkout, port, created))
    except (Refused, KeyboardInterrupt) as error:
        process.send_signal(signal.SIGTERM)
        process.wait()
        if isinstance(error, KeyboardInterrupt):
            raise Refused("interrupted; everything was stopped again") from error
        raise
    note = "" if status == "ready" else f" (status: {status})"
    print(f"agent-builder: ready after {time.monotonic() - started:.1f} s{note}")
    return 0


def _announce(checkout: Checkout, port: int, created: bool) -> None:
    print(f"agent-builder: http://127.0.0.1:{port}")
    print(f"agent-builder: log in with the token in {checkout.bootstrap_token}{' (just created)' if created else ''}", flush=True)
