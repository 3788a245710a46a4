"""The last choices of a frontend, with what they were made by: a balancer has to explain itself."""

from collections import deque
from itertools import islice
from math import isfinite
from typing import NamedTuple

from frontend.engine_book import EngineLoad
from frontend.routing.marginal_cost import MARGINAL_COST, CostModel, CostTerms
from frontend.routing.view import EngineChoice, RoutedRequest, RoutingView

MOST_DECISIONS = 256


class Decision(NamedTuple):
    """A choice, and all that it was made by. Nothing in it may be changed afterwards."""

    made_at: float
    request_id: str
    policy_name: str
    view: RoutingView
    request: RoutedRequest
    choice: EngineChoice


class DecisionLog:
    """The newest decisions.

    To add one costs next to nothing. Its terms are computed when they are asked for, by the function
    that decided and from the same numbers, so what is told is what was compared.
    """

    def __init__(self) -> None:
        self._decisions: deque[Decision] = deque(maxlen=MOST_DECISIONS)

    def __len__(self) -> int:
        return len(self._decisions)

    def add(self, decision: Decision) -> None:
        """Keep a decision, and let the oldest go."""
        self._decisions.append(decision)

    def explain(self, now: float, most: int = MOST_DECISIONS) -> list[dict[str, object]]:
        """So many decisions in plain values as JSON has them, the newest first."""
        return [_explain(decision, now) for decision in islice(reversed(self._decisions), most)]


def _explain(decision: Decision, now: float) -> dict[str, object]:
    view, request, choice = decision.view, decision.request, decision.choice
    compared = [load for load in view.loads if load.rank not in choice.left_out]
    is_ours = decision.policy_name == MARGINAL_COST
    model = CostModel(view, request, compared) if is_ours else None
    return {
        "age_seconds": now - decision.made_at,
        "request_id": decision.request_id,
        "policy": decision.policy_name,
        "context_tokens": request.context_tokens,
        "num_frontends": view.num_frontends,
        "chosen": choice.rank,
        "cost_seconds": choice.cost_seconds,
        "engines": [
            _describe(load, request, choice)
            | (_terms(model.terms(load)) if model else {"score": choice.scores.get(load.rank)})
            for load in sorted(view.loads, key=lambda load: load.rank)
        ],
    }


def _describe(load: EngineLoad, request: RoutedRequest, choice: EngineChoice) -> dict[str, object]:
    report, age_seconds = load.report, load.report_age_seconds
    return {
        "engine": load.rank,
        "took_part": load.rank not in choice.left_out,
        "report_age_seconds": age_seconds if isfinite(age_seconds) else None,
        "hit_tokens": request.hit_tokens.get(load.rank, 0),
        "in_flight": load.in_flight,
        "unacknowledged": load.sent.requests,
        "waiting": report.waiting if report is not None else None,
        "running": report.running if report is not None else None,
    }


def _terms(terms: CostTerms) -> dict[str, object]:
    return {
        "terms": {
            "total_seconds": terms.total_seconds,
            "prefill_seconds": terms.prefill_seconds,
            "decode_seconds": terms.decode_seconds,
            "cache_bar_seconds": terms.cache_bar_seconds,
            "slowness": terms.slowness._asdict(),
        }
    }
