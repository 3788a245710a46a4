"""Made-up turns for the tests of figures, verdicts and pages."""

import msgspec

from loadtests.peers_lab.comparison import PeersComparison, PeersOptions, conclude
from loadtests.peers_lab.load import PeerLoad
from loadtests.peers_lab.peer import Peer
from loadtests.peers_lab.turn import Turn, TurnPlan
from loadtests.record import RequestRecord, TokenArrival
from loadtests.report import make_report

LOAD = PeerLoad(
    requests=4, input_tokens=8, output_tokens=3, concurrency=2, vocabulary_size=1000, seed=7
)
PLAN = TurnPlan(LOAD, api_key=None, timeout_seconds=30.0, start_seconds=30.0)


def turn(
    server: str,
    number: int = 0,
    tokens_per_second: float = 10.0,
    *,
    gap_seconds: float = 0.02,
    num_tokens: int = 3,
    errors: int = 0,
    start_seconds: float | None = None,
    memory_bytes: int | None = None,
) -> Turn:
    """A turn with one whole answer, whose tokens are this far apart, and some failed requests."""
    arrivals = [TokenArrival(0.1 + i * gap_seconds, 1) for i in range(num_tokens)]
    records = [RequestRecord(0.0, arrivals[-1].at, arrivals)]
    records += [RequestRecord(0.0, 0.1, error_kind="HTTP 500") for _ in range(errors)]
    report = make_report(records, url="http://x", model="tiny", load="", counted=None)
    return Turn(
        server=server,
        round=number,
        report=msgspec.structs.replace(report, output_tokens_per_second=tokens_per_second),
        start_seconds=start_seconds,
        memory_bytes=memory_bytes,
    )


def comparison(*turns: Turn, lines: dict[str, float] | None = None) -> PeersComparison:
    """What these turns come to; the server of the first is the candidate."""
    names = dict.fromkeys(each.server for each in turns)
    peers = [Peer(name, "http://x") for name in names]
    rounds = max(each.round for each in turns) + 1
    return conclude(PeersOptions(peers, PLAN, rounds, lines or {}), turns)
