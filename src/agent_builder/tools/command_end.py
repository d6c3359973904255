"""How a confined command ended, told truthfully and within a bound."""

import signal
from dataclasses import dataclass

from agent_builder.capsule.command_runner import CommandEnd
from agent_builder.protocol.digest import digest_bytes
from agent_builder.protocol.limits import COMMAND_OUTPUT_BYTES, COMMAND_WALL_S, NAMES_SHOWN_BYTES
from agent_builder.tools.calls import CapabilityResult
from agent_builder.tools.cuts import clip


@dataclass(frozen=True, slots=True)
class Told:
    """`code`: None for a plain exit with 0, else `exit_code`, `signal` or the bound for which it was stopped."""

    code: str | None
    text: str
    truncated: bool


def ended_result(end: CommandEnd, facts: dict[str, object], left_out: tuple[str, ...] = ()) -> CapabilityResult:
    """For the model; the receipt begins with `facts`."""
    told = tell(end, left_out, COMMAND_OUTPUT_BYTES)
    receipt: dict[str, object] = {
        **facts, "output_bytes": len(end.stdout) + len(end.stderr), "output_digest": digest_bytes(end.stdout + end.stderr),
        "truncated": told.truncated, **({"exit_code": end.status} if end.status >= 0 else {"signal": -end.status}),
    }
    return CapabilityResult("ok" if told.code is None else "failed", told.code, told.text, receipt)


def tell(end: CommandEnd, left_out: tuple[str, ...], bound: int) -> Told:
    """At most `bound` bytes, which was also the bound of its output: what does not fit beside the lines about it is cut."""
    code = end.stopped or ("signal" if end.status < 0 else "exit_code" if end.status else None)
    output = (end.stdout + end.stderr).decode("utf-8", "replace")
    heading = _heading(end, bound) if output else f"{_heading(end, bound)}, no output"
    tail = f"not checked: {clip(', '.join(left_out), NAMES_SHOWN_BYTES)}" if left_out else ""
    shown = clip(output, bound - len(f"{heading}\n\n{tail}".encode()))
    return Told(code, "\n".join(filter(None, (heading, shown, tail))), end.stopped == "output" or shown != output)


def _heading(end: CommandEnd, bound: int) -> str:
    """How it ended, as it was: a command may end by itself in the moment in which a bound is noticed."""
    past = {
        "wall_clock": f"it ran longer than {COMMAND_WALL_S} seconds", "output": f"it wrote more than {bound} bytes", None: "",
    }[end.stopped]
    if end.status >= 0:
        return f"exit code {end.status}" + (f", but {past}" if past else "")
    return f"stopped: {past}" if past else f"killed by signal {-end.status} ({signal.Signals(-end.status).name})"
