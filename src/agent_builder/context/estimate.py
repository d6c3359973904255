"""Counting: the fallback counter, and the soft estimate that observations of the provider calibrate."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agent_builder.context.costs import Totals
from agent_builder.context.plan import SoftContextEstimate
from agent_builder.context.render import RENDERER
from agent_builder.context.toolset import EffectiveToolSet
from agent_builder.protocol.digest import digest_of
from agent_builder.protocol.limits import CALIBRATION_MIN_SAMPLES, CALIBRATION_SAMPLES
from agent_builder.protocol.model_profile import QualifiedModel
from agent_builder.protocol.request import TokenCounter

COMPRESSION_POLICY = "whole-turns-to-half-v1"


def utf8_bytes(text: str) -> int:
    """An upper bound of tokens: no tokenizer makes more tokens than bytes."""
    return len(text.encode())


BYTES_COUNTER = TokenCounter(name="utf8-bytes-upper-bound-v1", count=utf8_bytes, exact=False)


@dataclass(frozen=True, slots=True)
class Sample:
    """One complete observation: the upper bound of that request under the overhead now in force, and what the provider
    reported for it."""

    estimated: int
    observed: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """`ratio`: reported tokens per token of the upper bound; `spread`: the largest relative miss among the samples.
    `slack`: by how many tokens the bound of the newest sample was above the report; `slack_spread`: how far others differ."""

    ratio: float
    spread: float
    slack: int
    slack_spread: int
    samples: int
    exact: bool

    @property
    def calibrated(self) -> bool:
        return self.exact or self.samples >= CALIBRATION_MIN_SAMPLES

    def estimate(self, totals: Totals) -> SoftContextEstimate:
        """With exact counts only the template's overhead is unknown, and it is about the same for each request."""
        if self.exact and not self.samples:
            return SoftContextEstimate(tokens=totals.text, error=totals.upper - totals.text, samples=0)
        if self.exact:
            return SoftContextEstimate(max(totals.text, totals.upper - self.slack), self.slack_spread, self.samples)
        tokens = math.ceil(totals.upper * self.ratio)
        return SoftContextEstimate(tokens=tokens, error=math.ceil(tokens * self.spread), samples=self.samples)

    def inflation(self) -> float:
        """By how much the soft estimate with its error exceeds the upper bound; at least 1, in steps of a sixteenth, so
        that one more observation hardly ever moves the point of compaction. Exact counts are their own bound."""
        if self.exact or not self.calibrated:
            return 1.0
        return max(1.0, math.ceil(self.ratio * (1 + self.spread) * 16 - 1e-9) / 16)


def calibrate(samples: Sequence[Sample], *, exact: bool) -> Calibration:
    """`samples`: newest first; zeros do not count. The same samples always give the same calibration."""
    used = [sample for sample in samples if sample.estimated > 0 and sample.observed > 0][:CALIBRATION_SAMPLES]
    if not used:
        return Calibration(ratio=1.0, spread=0.0, slack=0, slack_spread=0, samples=0, exact=exact)
    ratio = sum(sample.observed for sample in used) / sum(sample.estimated for sample in used)
    spread = max(abs(sample.observed - sample.estimated * ratio) / (sample.estimated * ratio) for sample in used)
    slacks = [sample.estimated - sample.observed for sample in used]
    return Calibration(
        ratio=ratio, spread=spread, slack=slacks[0], slack_spread=max(abs(slack - slacks[0]) for slack in slacks),
        samples=len(used), exact=exact,
    )


def calibration_scope(model: QualifiedModel, toolset: EffectiveToolSet, counter: TokenCounter) -> str:
    """Observations count only for the same weights, profile, counter, renderer, toolset and way of shortening."""
    profile = model.profile
    return digest_of([
        profile.model_id, profile.provider_model, profile.think, model.digest, model.window, model.output_reserve, counter.name,
        RENDERER, toolset.digest, COMPRESSION_POLICY,
    ])
