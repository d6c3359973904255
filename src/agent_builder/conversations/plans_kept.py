"""The plans of recent Runs, in memory, for whoever looks at a Run's context."""

from collections import OrderedDict

from agent_builder.context.plan import ContextPlan
from agent_builder.protocol.limits import LIVE_RUNS_KEPT


class PlansKept:
    """As many as Runs are kept live; the oldest leaves first."""

    def __init__(self) -> None:
        self._plans: OrderedDict[str, ContextPlan] = OrderedDict()

    def keep(self, run_id: str, plan: ContextPlan) -> None:
        self._plans[run_id] = plan
        while len(self._plans) > LIVE_RUNS_KEPT:
            self._plans.popitem(last=False)

    def get(self, run_id: str) -> ContextPlan | None:
        return self._plans.get(run_id)
