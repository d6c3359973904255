import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from agent_builder.sandbox.launch import worker_command, worker_environment

HOST = """
import os, subprocess, sys
read_end, write_end = os.pipe()
child = subprocess.Popen(sys.argv[1:], stdin=read_end, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_a_worker_whose_host_is_killed_ends_although_its_stdin_stays_open(worker_env: Path, run_root: Path) -> None:
    """This process holds the other end of the Worker's stdin, so only the tie to the parent can end it."""
    read_end, write_end = os.pipe()
    script = HOST.replace("read_end, write_end = os.pipe()", f"read_end = {read_end}")
    with subprocess.Popen(
        [sys.executable, "-c", script, *worker_command(worker_env)], cwd=run_root, env=worker_environment(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(read_end,),
    ) as host:
        assert host.stdout is not None
        worker = os.pidfd_open(int(host.stdout.readline()))
        os.kill(host.pid, signal.SIGKILL)
        readable, _, _ = select.select([worker], [], [], 30)
    for descriptor in (read_end, write_end):
        os.close(descriptor)
    os.close(worker)
    assert readable, "the Worker outlived its host"
