"""The choice of a replica: pure decisions over what is known of the engines. No socket, no clock."""

import random
from collections.abc import Callable, Mapping

from frontend.routing.marginal_cost import MARGINAL_COST, MarginalCost
from frontend.routing.peer_policies import VLLM, LMetric, PowerOfTwo, SMGLeastLoad, VLLMClassic
from frontend.routing.simple_policies import LeastInflight, Random, RoundRobin
from frontend.routing.view import EngineChoice, Policy, RoutedRequest, RoutingView

POLICIES: Mapping[str, Callable[[random.Random], Policy]] = {
    MARGINAL_COST: MarginalCost,
    "vllm": VLLM,
    "vllm-classic": VLLMClassic,
    "power-of-two": PowerOfTwo,
    "least-inflight": LeastInflight,
    "round-robin": RoundRobin,
    "random": Random,
    # For comparison in the simulator only; `--routing` does not offer them.
    "lmetric": LMetric,
    "smg-least-load": SMGLeastLoad,
}
"""Every policy by name."""


class Balancer:
    """Chooses by one policy."""

    def __init__(self, policy_name: str, random_source: random.Random) -> None:
        self.policy_name = policy_name
        self._policy = POLICIES[policy_name](random_source)

    def choose(self, view: RoutingView, request: RoutedRequest) -> EngineChoice | None:
        """The engine for this request; None if no engine may be chosen."""
        return self._policy.choose(view, request) if view.loads else None
