"""Confinement in real children that stop half-way or start in a wrong state."""

import os
import signal
import subprocess
import sys
from pathlib import Path

PREPARE = """
import os, sys
from agent_builder.sandbox import confine, profiles, rlimits
from agent_builder.sandbox.bpf_build import build_programs
grants = profiles.Grants(write=(os.getcwd(),))
program = build_programs()["closed"]
"""


def run(script: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, "-c", PREPARE + script], cwd=cwd, env=environment, capture_output=True, text=True, timeout=60)


def test_a_confined_process_keeps_its_user_and_gets_a_private_umask(tmp_path: Path) -> None:
    done = run("confine.confine(profiles.WORKER, grants, program)\nopen('made', 'w').close()\nprint('still here')", tmp_path.resolve())
    assert (done.returncode, done.stdout) == (0, "still here\n"), done.stderr
    made = (tmp_path / "made").stat()
    assert (made.st_uid, made.st_mode & 0o777) == (os.getuid(), 0o600)


def test_a_process_with_a_second_thread_is_not_confined(tmp_path: Path) -> None:
    script = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    done = run(script + "confine.confine(profiles.WORKER, grants, program)", tmp_path)
    assert done.returncode == 1
    assert "more than one thread" in done.stderr


def test_an_older_landlock_is_not_enough(tmp_path: Path) -> None:
    done = run("confine.abi_version = lambda: 5\nconfine.confine(profiles.WORKER, grants, program)", tmp_path)
    assert done.returncode == 1
    assert "Landlock ABI 6 is needed, the kernel has 5" in done.stderr


def test_a_program_of_another_shape_is_not_loaded(tmp_path: Path) -> None:
    done = run("confine.confine(profiles.WORKER, grants, program[64:])", tmp_path.resolve())
    assert done.returncode == 1
    assert "ProgramRefused" in done.stderr


def test_the_proof_fails_in_an_unconfined_process(tmp_path: Path) -> None:
    done = run("confine.require_confined()", tmp_path)
    assert "reading the root directory is not refused" in done.stderr


def test_the_proof_notices_a_missing_seccomp_program(tmp_path: Path) -> None:
    script = "from agent_builder.sandbox.landlock import *\nconfine.set_no_new_privileges()\nrestrict_self(build_ruleset([]))\n"
    done = run(script + "confine.require_confined()", tmp_path)
    assert "a socket is not refused" in done.stderr


def test_limits_are_never_raised(tmp_path: Path) -> None:
    script = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
rlimits.apply_limits(rlimits.Limits(5, 1 << 28, 1000, 32))
print(*[resource.getrlimit(which) for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU, resource.RLIMIT_CORE)])
"""
    assert run(script, tmp_path).stdout == "(20, 20) (1000, 1000) (5, 6) (0, 0)\n"


def test_processor_time_ends_with_the_signal_that_says_so(tmp_path: Path) -> None:
    done = run("rlimits.apply_limits(rlimits.Limits(1, 1 << 28, 1000, 32))\nwhile True: pass", tmp_path)
    assert done.returncode == -signal.SIGXCPU
