"""What one finished model call teaches about sizes: an Observation for calibration, and what the chat template adds."""

import sqlite3
from datetime import datetime

from agent_builder.context.estimate import calibration_scope
from agent_builder.context.overhead import Seen, learn
from agent_builder.context.toolset import toolset_of
from agent_builder.llm.broker import ModelAnswer
from agent_builder.protocol.limits import CALIBRATION_SAMPLES
from agent_builder.protocol.request import START_OVERHEAD, RenderedRequest
from agent_builder.runs.admitted import AdmittedTurn
from agent_builder.storage.calibration import Observation, add_observation, get_overhead, observations, put_overhead


def observation(turn: AdmittedTurn, rendered: RenderedRequest, answer: ModelAnswer, now: datetime) -> Observation:
    """Tokens counted and tokens reported for one exact request; the time of the part that was really evaluated. A last request
    without the Turn's tools is one of another toolset."""
    usage, tools_left_out = answer.usage, bool(turn.toolset.specs) and not rendered.tools
    return Observation(
        scope=calibration_scope(turn.model, toolset_of(()), turn.counter) if tools_left_out else turn.scope,
        run_id=turn.identity.run_id, request_digest=rendered.digest, text=rendered.text_tokens, spare=rendered.spare_tokens,
        units=rendered.units, observed=usage.input, evaluated=usage.evaluated,
        eval_ms=None if usage.evaluate_s is None else int(usage.evaluate_s * 1000), exact=rendered.exact, now=now,
    )


def keep(conn: sqlite3.Connection, seen: Observation, rendered: RenderedRequest, *, whole: bool) -> None:
    """Stores an observation and what it teaches. `whole`: the provider reports tokens that it had cached, too."""
    if seen.exact and whole:
        known = get_overhead(conn, seen.scope) or START_OVERHEAD
        before = observations(conn, seen.scope, CALIBRATION_SAMPLES)
        earlier = [Seen(one.request_digest, one.text, one.units, one.observed) for one in before]
        put_overhead(conn, seen.scope, learn(known, rendered, seen.observed, earlier), seen.now)
    add_observation(conn, seen)
