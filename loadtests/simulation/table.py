"""Outcomes and verdicts as plain text, for a terminal."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean

from loadtests.simulation.judge import Verdict
from loadtests.simulation.outcome import Outcome

Key = tuple[str, str, float, int, int, float]

COLUMNS: Sequence[tuple[str, Callable[[Outcome], float], str]] = (
    ("TTFT ms", lambda o: o.ttft_mean * 1000, ".0f"),
    ("p50", lambda o: o.ttft_p50 * 1000, ".0f"),
    ("p99", lambda o: o.ttft_p99 * 1000, ".0f"),
    ("TPOT ms", lambda o: o.tpot_p50 * 1000, ".1f"),
    ("p99", lambda o: o.tpot_p99 * 1000, ".1f"),
    ("E2E s", lambda o: o.e2e_p50, ".2f"),
    ("p99", lambda o: o.e2e_p99, ".2f"),
    ("goodput", lambda o: o.goodput, ".3f"),
    ("hits", lambda o: o.hit_rate, ".2f"),
    ("uneven", lambda o: o.imbalance, ".2f"),
    ("preempted", lambda o: o.preemptions, ".0f"),
    ("moved", lambda o: o.moved, ".0f"),
    ("choice µs", lambda o: o.decision_microseconds, ".0f"),
)
"""Heading, value and format of each; means over the seeds."""


def outcome_table(outcomes: Iterable[Outcome]) -> str:
    """A block for each condition, a line for each policy, without a line end after the last line."""
    blocks: dict[Key, dict[str, list[Outcome]]] = {}
    for outcome in outcomes:
        blocks.setdefault(_key(outcome), {}).setdefault(outcome.policy, []).append(outcome)
    return "\n\n".join("\n".join(_block(key, policies)) for key, policies in blocks.items())


def _key(outcome: Outcome) -> Key:
    return (
        outcome.workload, outcome.scenario, outcome.load, outcome.engines,
        outcome.frontends, outcome.age_seconds,
    )  # fmt: skip


def _block(key: Key, policies: dict[str, list[Outcome]]) -> Iterator[str]:
    workload, scenario, load, engines, frontends, age_seconds = key
    yield (
        f"{workload}, {scenario}: load {load:.0%}, {engines} engines, {frontends} frontends,"
        f" data {age_seconds * 1000:g} ms old"
    )
    yield f"{'':<16}" + "".join(f"{heading:>10}" for heading, _, _ in COLUMNS)
    for policy, runs in policies.items():
        values = (format(fmean(map(value, runs)), form) for _, value, form in COLUMNS)
        yield f"{policy:<16}" + "".join(f"{value:>10}" for value in values)


def verdict_table(verdicts: Iterable[Verdict]) -> str:
    """A line for each pass line."""
    return "\n".join(
        f"{'met   ' if verdict.passed else 'MISSED'}  {verdict.line:<58}"
        f"{verdict.ratio:>7.3f} ({verdict.low:.3f}–{verdict.high:.3f}) × {verdict.against}, "
        f"at most {verdict.limit:.3f}"
        for verdict in verdicts
    )
