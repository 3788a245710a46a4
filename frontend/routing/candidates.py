"""Who takes part in a choice: old news, new engines, and one of very many do so by chance only."""

import heapq
import random
from collections.abc import Sequence

from frontend.engine_book import STALE_REPORT_SECONDS, EngineLoad
from frontend.routing.view import RoutedRequest, RoutingView

OLD_NEWS_SECONDS = 0.3
"""A report older than this tells little of the others' requests there."""
IDLE_NEWS_SECONDS = 0.8
"""The same of a report that says that there are none: an engine that is idle says so twice a second
only, and as soon as it no longer is."""
MOST_COMPARED, HOLDERS_COMPARED = 16, 4
"""Of many engines so many are compared, and among them so many for what they hold of the request."""
SLOW_START_SECONDS = 5.0
"""For so long an engine is new."""


def candidates(
    view: RoutingView, request: RoutedRequest, random_source: random.Random
) -> Sequence[EngineLoad]:
    """The engines to compare, at least one.

    *Old news*: who always takes the best by old numbers goes where everybody goes. Of the engines
    whose reports are old only two random ones take part (Mitzenmacher, "How Useful Is Old
    Information?", 2000), and the one that holds most of the request: what a cache holds is other
    news, and not old. A report that is older still counts as none, and without one an engine is no
    old news: what this frontend has sent there is known exactly, and decides.

    *Slow start*: an engine that joins a running cluster is empty, and its speed unknown. It takes
    part with a chance that rises from its fair share of the choices to 1. So all frontends together
    send it no more than its share at first, however many they are. Engines that start together, as
    all do at the start of a cluster, are not new to each other.

    *Many engines*: those that hold most of the request, and a dozen others by chance. The best of
    a dozen is as good as the best of all, near enough (Mitzenmacher, "The Power of Two Choices in
    Randomized Load Balancing", 2001), and a choice costs the same however many engines there are.
    """
    some = loads = _some_of_many(view.loads, request, random_source)
    old = [load for load in loads if load.report_age_seconds > OLD_NEWS_SECONDS]
    old = [load for load in old if is_old_news(load)]
    if len(old) > 2:
        loads = [load for load in loads if not is_old_news(load)]
        loads += _chosen_of_old(old, request, random_source)
    known_seconds = [load.known_seconds for load in some]
    if min(known_seconds) >= SLOW_START_SECONDS:
        return loads
    joined_late_seconds = min(SLOW_START_SECONDS, max(known_seconds) - SLOW_START_SECONDS)
    fair_share = 1 / len(view.loads)
    return [
        load
        for load in loads
        if load.known_seconds > joined_late_seconds
        or random_source.random() < max(fair_share, load.known_seconds / SLOW_START_SECONDS)
    ] or loads


def _some_of_many(
    loads: Sequence[EngineLoad], request: RoutedRequest, random_source: random.Random
) -> Sequence[EngineLoad]:
    if len(loads) <= MOST_COMPARED:
        return loads
    hit_tokens = request.hit_tokens
    held = heapq.nlargest(HOLDERS_COMPARED, loads, key=lambda load: hit_tokens.get(load.rank, 0))
    holders = [load for load in held if load.rank in hit_tokens]
    ranks = {load.rank for load in holders}
    others = random_source.sample(loads, MOST_COMPARED)
    others = [load for load in others if load.rank not in ranks]
    return holders + others[: MOST_COMPARED - len(holders)]


def is_old_news(load: EngineLoad) -> bool:
    """Whether this engine's report is too old to be trusted, and not yet too old to be used."""
    report, age_seconds = load.report, load.report_age_seconds
    if report is None or age_seconds <= OLD_NEWS_SECONDS or age_seconds > STALE_REPORT_SECONDS:
        return False
    return age_seconds > IDLE_NEWS_SECONDS or report.waiting + report.running > 0


def _chosen_of_old(
    old: Sequence[EngineLoad], request: RoutedRequest, random_source: random.Random
) -> list[EngineLoad]:
    chosen = random_source.sample(old, 2)
    if request.hit_tokens:
        least_tokens = min(request.uncomputed_tokens(load.rank) for load in chosen)
        holder = min(old, key=lambda load: request.uncomputed_tokens(load.rank))
        if request.uncomputed_tokens(holder.rank) < least_tokens:
            chosen.append(holder)
    return chosen
