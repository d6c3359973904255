"""Circuits: whether a model has lately answered at all. Memory only, by model id; no endpoint is in it."""

from dataclasses import dataclass

from agent_builder.protocol.errors import ModelTemporarilyUnhealthy
from agent_builder.protocol.limits import CATALOG_MODELS, CIRCUIT_FAILURES, CIRCUIT_OPEN_S
from agent_builder.protocol.ports import Clock


@dataclass(slots=True)
class _Circuit:
    failures: int = 0
    open_until: float = 0.0
    unhealthy_since: float | None = None


class Circuits:
    """Two attempts in a row without a first frame open a circuit for 30 s; a first frame closes it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._circuits: dict[str, _Circuit] = {}

    def check(self, model_id: str) -> None:
        """Raises ModelTemporarilyUnhealthy while the circuit is open."""
        circuit = self._circuits.get(model_id)
        if circuit is not None and self._clock.monotonic() < circuit.open_until:
            raise ModelTemporarilyUnhealthy

    def is_open(self, model_id: str) -> bool:
        circuit = self._circuits.get(model_id)
        return circuit is not None and self._clock.monotonic() < circuit.open_until

    def failed(self, model_id: str) -> None:
        """An attempt ended without a first frame."""
        now = self._clock.monotonic()
        circuit = self._circuits.setdefault(model_id, _Circuit())
        if len(self._circuits) > CATALOG_MODELS:
            del self._circuits[next(iter(self._circuits))]
        circuit.failures += 1
        if circuit.unhealthy_since is None:
            circuit.unhealthy_since = now
        if circuit.failures >= CIRCUIT_FAILURES:
            circuit.failures, circuit.open_until = 0, now + CIRCUIT_OPEN_S

    def succeeded(self, model_id: str) -> None:
        """A first frame arrived."""
        self._circuits.pop(model_id, None)

    def unhealthy_s(self, model_id: str) -> float:
        """Seconds since the first of the failures that no first frame has followed; 0 for a healthy model."""
        circuit = self._circuits.get(model_id)
        if circuit is None or circuit.unhealthy_since is None:
            return 0.0
        return self._clock.monotonic() - circuit.unhealthy_since
