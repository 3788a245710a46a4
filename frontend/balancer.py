"""The choice of a replica: pure decisions over what is known of the engines. No socket, no clock."""

import random

from frontend.routing.marginal_cost import MarginalCost
from frontend.routing.simple_policies import LeastInflight, Random, RoundRobin
from frontend.routing.view import EngineChoice, RoutedRequest, RoutingView

OLD_NEWS_SECONDS = 0.3
"""Reports older than this flatten the choice to the better of two random engines."""


class Balancer:
    """Chooses by one policy; flattens the choice when all it has is old news."""

    def __init__(self, policy_name: str, random_source: random.Random) -> None:
        self.policy_name = policy_name
        self._random = random_source
        self._policy = _POLICIES[policy_name](random_source)

    def choose(self, view: RoutingView, request: RoutedRequest) -> EngineChoice | None:
        """The engine for this request; None if no engine may be chosen."""
        if not view.loads:
            return None
        fresh = [load for load in view.loads if load.report_age_seconds <= OLD_NEWS_SECONDS]
        if not fresh and len(view.loads) > 2:
            view = view._replace(loads=self._random.sample(list(view.loads), 2))
        return self._policy.choose(view, request)


_POLICIES: dict[str, type[MarginalCost | LeastInflight | RoundRobin | Random]] = {
    "marginal-cost": MarginalCost,
    "least-inflight": LeastInflight,
    "round-robin": RoundRobin,
    "random": Random,
}
