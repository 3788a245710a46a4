"""The whole comparison: each round, each server in its turn."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from loadtests.comparison.policy_order import policy_order
from loadtests.comparison.summary import Measure
from loadtests.peers_lab.figures import FIGURES, THROUGHPUT, measure_of, ratio_of
from loadtests.peers_lab.peer import Peer
from loadtests.peers_lab.turn import Turn, TurnPlan, take_turn


class PeersOptions(NamedTuple):
    """What `python -m loadtests peers` was asked for."""

    peers: Sequence[Peer]
    """The first is the candidate."""
    plan: TurnPlan
    rounds: int
    lines: Mapping[str, float]
    """The least ratio of the candidate's throughput to that of a peer, by the peer's name."""


class PeerSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One server, all rounds together."""

    server: str
    figures: dict[str, Measure | None]
    """By key, in the unit that the key ends with."""
    ratios: dict[str, Measure | None]
    """The candidate's figures over this server's; none of its own."""
    requests: int
    failed_requests: int


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What was demanded of the candidate's throughput, and what was found."""

    peer: str
    least_ratio: float
    ratio: Measure | None

    @property
    def is_kept(self) -> bool:
        """Whether the median of the rounds is as high as was demanded."""
        return self.ratio is not None and self.ratio.median >= self.least_ratio


class PeersComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What came out of it."""

    candidate: str
    load: str
    seed: int
    rounds: int
    summaries: list[PeerSummary]
    lines: list[Line]
    turns: list[Turn]

    @property
    def passed(self) -> bool:
        """Whether every request was answered and every line kept."""
        has_failed = any(summary.failed_requests for summary in self.summaries)
        return not has_failed and all(line.is_kept for line in self.lines)


async def compare(options: PeersOptions, tell: Callable[[Turn], None]) -> PeersComparison:
    """Let every server have its turns, and `tell` of each when it is over. Raises PeerError."""
    peers = {peer.name: peer for peer in options.peers}
    turns: list[Turn] = []
    for number, name in policy_order(list(peers), options.rounds):
        turn = await take_turn(peers[name], number, options.plan)
        turns.append(turn)
        tell(turn)
    return conclude(options, turns)


def conclude(options: PeersOptions, turns: Sequence[Turn]) -> PeersComparison:
    """The comparison that these turns, one at least of each server, make up."""
    candidate = options.peers[0].name
    summaries = [_summarize(candidate, peer.name, turns) for peer in options.peers]
    ratios = {summary.server: summary.ratios.get(THROUGHPUT) for summary in summaries}
    return PeersComparison(
        candidate=candidate,
        load=options.plan.load.in_words,
        seed=options.plan.load.seed,
        rounds=options.rounds,
        summaries=summaries,
        lines=[
            Line(peer=name, least_ratio=least, ratio=ratios[name])
            for name, least in options.lines.items()
        ],
        turns=list(turns),
    )


def _summarize(candidate: str, server: str, turns: Sequence[Turn]) -> PeerSummary:
    reports = [turn.report for turn in turns if turn.server == server]
    compared = () if server == candidate else FIGURES
    return PeerSummary(
        server=server,
        figures={figure.key: measure_of(turns, server, figure) for figure in FIGURES},
        ratios={figure.key: ratio_of(turns, candidate, server, figure) for figure in compared},
        requests=sum(report.requests for report in reports),
        failed_requests=sum(report.requests - report.completed for report in reports),
    )
