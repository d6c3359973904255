import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_builder.protocol.errors import SandboxFailed
from agent_builder.sandbox.inspection import verify_confined
from tests.support.confined import started, worker

READY_AND_WAIT = "print('x', flush=True); import sys; sys.stdin.read()"
PREPARE = "from agent_builder.sandbox import confine, seccomp, bpf_build\nprograms = bpf_build.build_programs()\n"
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join(sys.path)}


def test_a_ready_worker_is_found_confined(worker_env: Path, run_root: Path) -> None:
    with worker(worker_env, run_root) as child:
        child.line()
        verify_confined(child.process.pid)


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        ("", "no_new_privs"),
        ("confine.set_no_new_privileges()", "seccomp filter"),
        (("confine.drop_capabilities(); confine.set_no_new_privileges(); import threading; "
         "threading.Thread(target=sys.stdin.read, daemon=True).start(); seccomp.load(programs['closed'])"), "more than one thread"),
        ("confine.drop_capabilities(); confine.set_no_new_privileges(); seccomp.load(programs['closed'])", "a descriptor"),
    ],
)
def test_a_process_with_one_missing_step_is_refused(steps: str, fault: str, tmp_path: Path) -> None:
    script = f"import sys, os\nextra = os.open('/dev/null', os.O_RDONLY)\n{PREPARE}{steps}\n{READY_AND_WAIT}"
    with started([sys.executable, "-c", script], tmp_path, ENVIRONMENT) as child:
        assert child.line() == b"x\n"
        with pytest.raises(SandboxFailed, match=fault):
            verify_confined(child.process.pid)


def test_a_process_that_kept_a_capability_is_refused(tmp_path: Path) -> None:
    script = f"import sys\n{PREPARE}confine.set_no_new_privileges(); seccomp.load(programs['closed'])\n{READY_AND_WAIT}"
    with started([sys.executable, "-c", script], tmp_path, ENVIRONMENT) as child:
        assert child.line() == b"x\n"
        if os.geteuid() == 0:
            with pytest.raises(SandboxFailed, match="CapPrm"):
                verify_confined(child.process.pid)
        else:
            verify_confined(child.process.pid)


def test_a_process_that_is_gone_is_refused() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    with pytest.raises(SandboxFailed, match="ended"):
        verify_confined(process.pid)


def test_a_hardened_process_is_not_dumpable(tmp_path: Path) -> None:
    script = (
        "from agent_builder.sandbox.inspection import harden_gateway\n"
        "from agent_builder.sandbox.linux_calls import prctl\n"
        "before = prctl(3)\nharden_gateway()\nprint(before, prctl(3))"
    )
    done = subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout == "1 0\n"
