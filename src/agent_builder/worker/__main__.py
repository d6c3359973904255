"""The Worker: import everything, confine, prove it, say READY, then serve one Run.

Started as `python -I -S -B <worker-env>/worker` with its run root as working directory and pipes on 0, 1 and 2. Nothing
is read from the host before READY, so no byte of a conversation meets an unconfined process; and nothing is imported after
it, since executable memory is refused then. `--qualify` serves the start-up qualification instead of a Run.
"""

import json
import os
import sys
from collections.abc import Callable

from agent_builder.protocol.frames import Failed, FrameError, Ready
from agent_builder.protocol.framing import FramingError
from agent_builder.protocol.limits import IPC_VERSION
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.sandbox.confine import confine, require_confined
from agent_builder.sandbox.profiles import WORKER, Grants
from agent_builder.worker.host_link import HostLink
from agent_builder.worker.kernel import HarnessKernel

_READ_FROM, _WRITE_TO = 0, 1
_HOST_GONE = 3  # exit code: the host closed the pipe before the Run ended


def main() -> int:
    """0 after a terminal frame; another code or a traceback on stderr when there was none."""
    qualifying = sys.argv[1:] == ["--qualify"]
    i386_call = _prepare_probes() if qualifying else None
    confine_worker()
    link = HostLink(_READ_FROM, _WRITE_TO)
    link.send([Ready(IPC_VERSION, os.getpid(), CATALOG.digest)])
    if i386_call is not None:
        return _serve_probes(link, i386_call)
    return serve(link)


def confine_worker() -> None:
    """Reads the standard library and the worker environment, writes the run root only."""
    worker_env = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(worker_env, f"{WORKER.program}.bpf"), "rb") as file:
        program = file.read()
    library = os.path.dirname(os.path.realpath(os.__file__))
    confine(WORKER, Grants(read=(library, os.path.realpath(worker_env)), write=(os.getcwd(),)), program)
    require_confined()


def serve(link: HostLink) -> int:
    """One Run. Whatever goes wrong here still ends in one terminal frame."""
    kernel = HarnessKernel(CATALOG)
    try:
        for frame in link.frames():
            link.send(kernel.step(frame))
            if kernel.finished:
                return 0
    except (FramingError, FrameError):
        link.send([Failed("worker_protocol")])
        return 0
    except BrokenPipeError:
        return _HOST_GONE
    except Exception:
        link.send([Failed("internal")])
        raise
    return _HOST_GONE


def _prepare_probes() -> Callable[[], object]:
    from agent_builder.sandbox.probes import prepare_i386_call

    return prepare_i386_call()


def _serve_probes(link: HostLink, i386_call: Callable[[], object]) -> int:
    from agent_builder.sandbox.probes import WORKER_EXPECTED, Targets, run_probes

    request = json.loads(next(link.lines()))["probe"]
    found = run_probes(Targets(*request["targets"]), list(WORKER_EXPECTED))
    link.send_line(json.dumps(found).encode() + b"\n")
    if request.get("then_die"):
        i386_call()
    return 0


if __name__ == "__main__":
    sys.exit(main())
