"""What one finished model call teaches about sizes: an Observation for calibration."""

from datetime import datetime

from agent_builder.llm.broker import ModelAnswer
from agent_builder.protocol.request import RenderedRequest
from agent_builder.runs.admitted import AdmittedTurn
from agent_builder.storage.calibration import Observation


def observation(turn: AdmittedTurn, rendered: RenderedRequest, answer: ModelAnswer, now: datetime) -> Observation:
    """Tokens planned and tokens reported for one exact request; the time of the part that was really evaluated."""
    usage = answer.usage
    return Observation(
        scope=turn.scope, run_id=turn.identity.run_id, request_digest=rendered.digest, estimated=rendered.admission_tokens,
        observed=usage.input, evaluated=usage.evaluated,
        eval_ms=None if usage.evaluate_s is None else int(usage.evaluate_s * 1000), exact=rendered.exact, now=now,
    )
