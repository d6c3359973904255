"""The Worker as a real confined process, started from a sealed environment."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_builder.protocol.frames import (
    CallProposal,
    Failed,
    Final,
    LocalResult,
    ModelCall,
    ModelDone,
    ModelText,
    Ready,
    Reference,
    Start,
    ToolCall,
    ToolResult,
    UserText,
)
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import IPC_FRAME_BYTES, IPC_VERSION
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.sandbox.inspection import open_descriptors
from agent_builder.sandbox.probes import WORKER_EXPECTED, Targets
from tests.support.confined import attack_as_worker, probe_request, worker

PLAN, TOOLSET = Reference(new_id(), "a" * 64), Reference(new_id(), "b" * 64)


def start_frame() -> Start:
    tools = ["file/read_text", "builtin/echo"]
    return Start(new_id(), new_id(), new_id(), new_id(), tools, PLAN, TOOLSET, 4, 2, several_calls=True)


def test_a_whole_conversation_is_played_over_the_pipes(worker_env: Path, run_root: Path) -> None:
    calls = [CallProposal("c1", "file/read_text", {"path": "notes.md"}), CallProposal("c2", "builtin/echo", {"text": "caf\u00e9 \u4f60\u597d"})]
    with worker(worker_env, run_root) as child:
        assert child.receive() == Ready(IPC_VERSION, child.process.pid, CATALOG.digest)
        child.send(start_frame(), UserText("read notes.md ", False), UserText("and say caf\u00e9", True))
        assert child.receive() == ModelCall(PLAN, TOOLSET, [])
        child.send(ModelText(1, "I will read."), ModelDone(1, calls, False))
        assert child.receive() == ToolCall("c1", "file/read_text", {"path": "notes.md"})
        child.send(ToolResult("c1", "ok"))
        assert child.receive() == LocalResult("c2", "caf\u00e9 \u4f60\u597d")
        child.send(ToolResult("c2", "ok"))
        assert child.receive() == ModelCall(PLAN, TOOLSET, ["c1", "c2"])
        child.send(ModelText(2, "done"), ModelDone(2, [], False))
        assert child.receive() == Final(2)
        assert child.finish() == (0, "", "")


@pytest.mark.parametrize(
    "line", [b"not json\n", b'{"kind":"nothing"}\n', b"x" * IPC_FRAME_BYTES + b"\n", b'{"kind":"model_done","call":1,"calls":[],"correction":false}\n']
)
def test_a_broken_frame_ends_the_run_with_one_failure(line: bytes, worker_env: Path, run_root: Path) -> None:
    with worker(worker_env, run_root) as child:
        child.receive()
        child.write(line)
        assert child.receive() == Failed("worker_protocol")
        assert child.finish() == (0, "", "")


def test_a_fault_of_our_own_is_one_failure_with_a_trace_on_stderr(worker_env: Path, run_root: Path) -> None:
    """A call id of half a character cannot be sent back."""
    with worker(worker_env, run_root) as child:
        child.receive()
        child.send(start_frame(), UserText("hi", True))
        child.receive()
        child.write(
            b'{"kind":"model_done","call":1,"calls":[{"call_id":"\\ud800","tool_id":"builtin/echo","arguments":{"text":"x"}}],"correction":false}\n'
        )
        assert child.receive() == Failed("internal")
        status, _, err = child.finish()
    assert status == 1
    assert "UnicodeEncodeError" in err


def test_a_worker_whose_host_closes_the_pipe_ends_by_itself(worker_env: Path, run_root: Path) -> None:
    with worker(worker_env, run_root) as child:
        child.receive()
        assert child.finish() == (3, "", "")


def test_a_worker_that_cannot_be_confined_says_nothing_on_stdout(worker_env: Path, tmp_path: Path) -> None:
    """Its working directory is gone, so no rule can be made for it."""
    script = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.argv[1], sys.argv[1:])"
    from agent_builder.sandbox.launch import worker_command

    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run([sys.executable, "-c", script, *worker_command(worker_env)], cwd=gone, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "FileNotFoundError" in done.stderr


def test_a_parked_worker_keeps_its_right_to_its_root_when_the_root_is_renamed(worker_env: Path, tmp_path: Path, targets: Targets) -> None:
    spare, run = tmp_path.resolve() / "spare", tmp_path.resolve() / "run"
    spare.mkdir()
    (spare / "planted").symlink_to(targets.canary)
    with worker(worker_env, spare, "--qualify", pass_fds=(targets.descriptor,)) as child:
        child.receive()
        spare.rename(run)
        spare.mkdir()
        (spare / "canary").write_text("a later root at the old place", encoding="utf-8")
        child.write(probe_request(targets._replace(canary=str(spare / "canary"))))
        outcomes = child.line().decode()
    for name, expected in WORKER_EXPECTED.items():
        assert f'"{name}": "{expected}"' in outcomes
    assert sorted(path.name for path in run.iterdir()) == ["planted"]


def test_a_parked_worker_serves_a_run_after_the_rename(worker_env: Path, tmp_path: Path) -> None:
    spare = tmp_path.resolve() / "spare"
    spare.mkdir()
    with worker(worker_env, spare) as child:
        child.receive()
        spare.rename(tmp_path.resolve() / "run")
        child.send(start_frame(), UserText("hi", True))
        assert child.receive() == ModelCall(PLAN, TOOLSET, [])
        child.send(ModelDone(1, [], False))
        assert child.receive() == Final(1)


def test_every_promise_holds_in_a_real_worker(worker_env: Path, run_root: Path, targets: Targets) -> None:
    assert attack_as_worker(worker_env, run_root, targets) == WORKER_EXPECTED


def test_a_worker_holds_three_pipes_and_nothing_else(worker_env: Path, run_root: Path, targets: Targets) -> None:
    with worker(worker_env, run_root, pass_fds=(targets.descriptor,)) as child:
        child.receive()
        assert open_descriptors(child.process.pid) in ({"0", "1", "2"}, None)


BLOCKED = """
import sys
sys.path.insert(0, sys.argv[1])
for name in ("pydantic", "pydantic_core", "asyncio", "dataclasses", "landlock", "pyseccomp", "hashlib", "subprocess"):
    sys.modules[name] = None
import agent_builder.worker.host_link, agent_builder.worker.kernel, agent_builder.sandbox.confine
import agent_builder.sandbox.command_stub, agent_builder.sandbox.probes, agent_builder.protocol.tool_catalog
"""


def test_everything_a_worker_loads_does_without_pydantic_asyncio_and_other_heavy_modules(worker_env: Path) -> None:
    for place in (Path(__file__).parents[2] / "src", worker_env / "worker"):
        subprocess.run([sys.executable, "-I", "-S", "-B", "-c", BLOCKED, str(place)], check=True, timeout=60)


def test_a_worker_is_started_and_its_cost_printed(worker_env: Path, run_root: Path) -> None:
    """The figures are for the reader (pytest -s); only what is not a matter of speed is asserted."""
    begin = time.monotonic()
    with worker(worker_env, run_root) as child:
        ready = child.receive()
        milliseconds = (time.monotonic() - begin) * 1000
        status = Path(f"/proc/{child.process.pid}/status").read_text(encoding="utf-8")
    resident = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert isinstance(ready, Ready)
    assert resident is not None
    print(f"spawn to READY {milliseconds:.1f} ms, resident {int(resident[1]) / 1024:.1f} MiB, load {os.getloadavg()[0]:.1f}")
