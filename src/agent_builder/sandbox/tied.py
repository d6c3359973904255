"""Becomes another program that is killed when its parent ends: `python -I -S -B tied.py PARENT-PID PROGRAM ARGUMENT…`.

A child of the Gateway that is not confined would outlive a Gateway that was killed, and go on writing where the next one works.
The kernel keeps the order to kill over an exec. A parent that ended before the order was given is noticed by its pid.
"""

import os
import signal
import sys
from pathlib import Path


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from agent_builder.sandbox.linux_calls import PR_SET_PDEATHSIG, prctl

    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the parent has ended")
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - no shell; the program is the caller's own


if __name__ == "__main__":
    main()
