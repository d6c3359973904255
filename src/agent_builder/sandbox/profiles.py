"""What each confined process may do. A Profile is the fixed part; the Grants name this machine's paths."""

from typing import NamedTuple

from agent_builder.protocol.limits import (
    COMMAND_CPU_S,
    COMMAND_FDS,
    COMMAND_FILE_BYTES,
    COMMAND_MEMORY_BYTES,
    DOCUMENT_CPU_S,
    DOCUMENT_FDS,
    DOCUMENT_MEMORY_BYTES,
    GIT_STATUS_CPU_S,
    WORKER_CPU_S,
    WORKER_FDS,
    WORKER_FILE_BYTES,
    WORKER_MEMORY_BYTES,
)
from agent_builder.sandbox.landlock import DEVICE, READ, RUN, WRITE, PathRule
from agent_builder.sandbox.rlimits import Limits


class GrantsRefused(Exception):
    """The grants give more than the profile may have."""


class Profile(NamedTuple):
    """`program` names the seccomp program: `closed` allows a short list, `foreign` lets an unknown binary run and
    refuses network, processes, devices and kernel surface. `may_execute` and `may_write` bound what Grants may hold."""

    name: str
    program: str
    limits: Limits
    may_execute: bool
    may_write: bool


class Grants(NamedTuple):
    """Resolved absolute paths. A directory means everything below it."""

    read: tuple[str, ...] = ()
    execute: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    device: tuple[str, ...] = ()


WORKER = Profile(
    "worker", "closed", Limits(WORKER_CPU_S, WORKER_MEMORY_BYTES, WORKER_FILE_BYTES, WORKER_FDS), may_execute=False, may_write=True
)
COMMAND_BASH = Profile(
    "command-bash", "foreign", Limits(COMMAND_CPU_S, COMMAND_MEMORY_BYTES, COMMAND_FILE_BYTES, COMMAND_FDS),
    may_execute=True, may_write=False,
)
COMMAND_COMPILE = Profile(
    "command-compile", "closed", Limits(COMMAND_CPU_S, COMMAND_MEMORY_BYTES, COMMAND_FILE_BYTES, COMMAND_FDS),
    may_execute=False, may_write=False,
)
SKILL_SCRIPT = Profile(
    "skill-script", "closed", Limits(COMMAND_CPU_S, COMMAND_MEMORY_BYTES, COMMAND_FILE_BYTES, COMMAND_FDS),
    may_execute=False, may_write=False,
)
GIT_STATUS = Profile(
    "git-status", "foreign", Limits(GIT_STATUS_CPU_S, COMMAND_MEMORY_BYTES, 0, COMMAND_FDS), may_execute=True, may_write=False
)
DOCUMENT = Profile(
    "document", "closed", Limits(DOCUMENT_CPU_S, DOCUMENT_MEMORY_BYTES, 0, DOCUMENT_FDS), may_execute=False, may_write=False
)

PROFILES = {profile.name: profile for profile in (WORKER, COMMAND_BASH, COMMAND_COMPILE, SKILL_SCRIPT, GIT_STATUS, DOCUMENT)}
PROGRAMS = ("closed", "foreign")


def path_rules(profile: Profile, grants: Grants) -> list[PathRule]:
    """The Landlock rules. Raises GrantsRefused when the grants exceed the profile."""
    if (grants.execute and not profile.may_execute) or (grants.write and not profile.may_write):
        raise GrantsRefused(f"{profile.name} may not have these grants")
    pairs = ((grants.read, READ), (grants.execute, RUN), (grants.write, WRITE), (grants.device, DEVICE))
    return [PathRule(path, rights) for paths, rights in pairs for path in paths]
