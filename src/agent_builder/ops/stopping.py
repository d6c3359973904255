"""stop: ends exactly the processes that this checkout started, in order, and leaves nothing behind."""

import os
import select
import signal
import time

from agent_builder.ops.lifecycle import lifecycle_lock
from agent_builder.ops.outcome import EXIT_FOREIGN, Refused
from agent_builder.ops.records import Found, Role, Standing, find, record_path, remove_record
from agent_builder.ops.supervisor import wait_for_unused_roots
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.limits import MODEL_SERVER_STOP_S, STOP_FORCED_S, STOP_MARGIN_S, STOP_S
from agent_builder.sandbox.process_identity import ProcessIdentity, open_process, send_signal


def stop(checkout: Checkout, forced: bool) -> int:
    """Returns the exit code; raises Refused when something could not be ended."""
    with lifecycle_lock(checkout.control_plane):
        found = {role: find(checkout.control_plane, role) for role in Role}
        if any(each.standing is Standing.ALIVE for each in found.values()):
            print("agent-builder: stopping", flush=True)
        stopped = end_recorded(checkout, found, forced)
        for root in wait_for_unused_roots(checkout.agents_runtime):
            raise Refused(f"{root} is still used by a process that is not ours to end; it was left")
        foreign = [role for role, each in found.items() if each.standing is Standing.FOREIGN]
        if foreign:
            raise Refused(f"{'stopped' if stopped else 'not running'}; identity mismatch: the record of the {foreign[0]} named a process that is not ours; it was left alone", EXIT_FOREIGN)
        print(f"agent-builder: {'stopped' if stopped else 'not running'}")
        return 0


def end_recorded(checkout: Checkout, found: dict[Role, Found], forced: bool) -> bool:
    """Ends the recorded processes whose identity holds; the supervisor ends the others itself. True when one was alive.
    Called under the lifecycle lock."""
    stopped = False
    deadline = STOP_FORCED_S if forced else STOP_S
    for role, seconds in ((Role.SUPERVISOR, deadline + STOP_MARGIN_S), (Role.GATEWAY, deadline), (Role.MODEL_SERVER, MODEL_SERVER_STOP_S)):
        each = found[role] if role is Role.SUPERVISOR else find(checkout.control_plane, role)
        if each.standing is Standing.ALIVE and each.record is not None:
            stopped = True
            short = forced and role is not Role.MODEL_SERVER
            if not _end(each.record.identity, signal.SIGUSR1 if short else signal.SIGTERM, seconds):
                raise Refused(f"the {role} (process {each.record.pid}) could not be ended")
        if record_path(checkout.control_plane, role).exists():
            remove_record(checkout.control_plane, role)
    return stopped


def _end(identity: ProcessIdentity, number: signal.Signals, seconds: float) -> bool:
    """Asks, waits, kills exactly this process. True when it is gone."""
    try:
        descriptor = open_process(identity)
    except ProcessLookupError:
        return True
    try:
        send_signal(identity, number)
        if _gone_within(descriptor, seconds):
            return True
        send_signal(identity, signal.SIGKILL)
        return _gone_within(descriptor, STOP_MARGIN_S)
    finally:
        os.close(descriptor)


def _gone_within(descriptor: int, seconds: float) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    until = time.monotonic() + seconds
    return bool(poller.poll(max(0.0, until - time.monotonic()) * 1000))
