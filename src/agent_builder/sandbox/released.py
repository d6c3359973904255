"""How every confined program but the Worker begins: confines itself, says READY, waits for its release.

Standard library and sealed modules only. What a program needs it imports before; the release is read after confinement, so nothing
that a model wrote is ever seen by an unconfined process.
"""

import json
import os
import sys
from collections.abc import Callable

from agent_builder.protocol.limits import COMMAND_REFUSED_EXIT, HANDSHAKE_BYTES
from agent_builder.sandbox.confine import confine, require_confined
from agent_builder.sandbox.profiles import Grants, Profile

READY_LINE = b'{"ready":true}\n'


def released(profile: Profile, grants: Grants, worker_env: str, *, qualify: bool) -> list[str]:
    """The arguments of the release. Ends the process where none comes, and, with `qualify`, behind the probes that are tried instead."""
    with open(os.path.join(worker_env, f"{profile.program}.bpf"), "rb") as file:
        program = file.read()
    probe = _import_probes() if qualify else None
    confine(profile, grants, program)
    require_confined()
    os.write(1, READY_LINE)
    release = _read_line()
    if not release:
        sys.exit(COMMAND_REFUSED_EXIT)
    message = json.loads(release)
    if probe is not None:
        sys.exit(probe(message["probe"]))
    return [str(argument) for argument in message["arguments"]]


def _read_line() -> bytes:
    """One line from stdin with its line feed; empty when stdin ended before it."""
    line = b""
    while not line.endswith(b"\n") and len(line) < HANDSHAKE_BYTES:
        part = os.read(0, HANDSHAKE_BYTES - len(line))
        if not part:
            return b""
        line += part
    return line


def _import_probes() -> Callable[[dict[str, list[object]]], int]:
    """The start-up qualification: tries attacks instead of a command, then dies of the last."""
    from agent_builder.sandbox.probes import PROBES, Targets, run_probes, x32_call

    def tried(request: dict[str, list[object]]) -> int:
        found = run_probes(Targets(*request["targets"]), list(PROBES))  # type: ignore[arg-type]
        os.write(1, json.dumps(found).encode() + b"\n")
        if request.get("then_die"):
            x32_call()
        return 0

    return tried
