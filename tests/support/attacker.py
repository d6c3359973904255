"""A child process of the attack tests: puts on one layer of the sandbox alone, then tries the named probes.

Layers: `none`, `landlock` (rules for the working directory only), `closed` and `foreign` (that seccomp program only),
`other-user` (the whole Worker confinement under an ordinary user id), `bash` (the whole domain of bounded Bash, then a script).
"""

import json
import os
import signal
import sys

from agent_builder.sandbox.bpf_build import build_programs
from agent_builder.sandbox.confine import confine, require_confined, set_no_new_privileges
from agent_builder.sandbox.landlock import WRITE, PathRule, build_ruleset, restrict_self
from agent_builder.sandbox.probes import Targets, run_probes
from agent_builder.sandbox.profiles import COMMAND_BASH, WORKER, Grants
from agent_builder.sandbox.seccomp import load

ORDINARY_USER = 64001


def main() -> None:
    request = json.loads(sys.argv[1])
    put_on(request["layer"], request)
    if request["layer"] == "bash":
        become_bash(request)
    print(json.dumps(run_probes(Targets(*request["targets"]), request["names"])))


def put_on(layer: str, request: dict[str, list[list[str]]]) -> None:
    programs = build_programs()
    if layer in ("closed", "foreign"):
        set_no_new_privileges()
        load(programs[layer])
    elif layer == "landlock":
        set_no_new_privileges()
        restrict_self(build_ruleset([PathRule(os.getcwd(), WRITE)]))
    elif layer == "other-user":
        become_ordinary_user()
        confine(WORKER, Grants(write=(os.getcwd(),)), programs["closed"])
        require_confined()
    elif layer == "bash":
        confine(COMMAND_BASH, Grants(*map(tuple, request["grants"])), programs["foreign"])


def become_ordinary_user() -> None:
    if os.getuid() == 0:
        os.chown(".", ORDINARY_USER, ORDINARY_USER)
        os.setgroups([])
        os.setresgid(ORDINARY_USER, ORDINARY_USER, ORDINARY_USER)
        os.setresuid(ORDINARY_USER, ORDINARY_USER, ORDINARY_USER)


def become_bash(request: dict[str, list[list[str]]]) -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    bash = request["grants"][1][0]
    os.execve(bash, ["bash", "--norc", "--noprofile", "-p", "-c", str(request["script"])], {"LC_ALL": "C"})


if __name__ == "__main__":
    main()
