"""Made-up trials for the tests of summaries, verdicts and pages."""

from collections import Counter

from loadtests.comparison.trial import Trial
from loadtests.record import RequestRecord, TokenArrival
from loadtests.report import make_report
from loadtests.server_counters import ServerCounters


def record(
    ttft_seconds: float = 0.1, due_at: float = 0.0, error_kind: str | None = None
) -> RequestRecord:
    """An answer of two tokens, 20 ms apart."""
    first = due_at + ttft_seconds
    arrivals = [TokenArrival(first, 1), TokenArrival(first + 0.02, 1)]
    return RequestRecord(due_at, first + 0.02, arrivals, error_kind=error_kind)


def trial(
    policy: str,
    *ttft_seconds: float,
    load: str = "uniform",
    number: int = 0,
    errors: int = 0,
    engine_requests: tuple[int, ...] = (1, 1),
    restarts: int = 0,
    goodput_lost: float | None = None,
) -> Trial:
    """A trial whose answers began after these times, and of whose requests some failed; engine 1 did."""
    records = [record(seconds) for seconds in ttft_seconds]
    records += [record(error_kind="HTTP 500") for _ in range(errors)]
    counted = ServerCounters(Counter(), Counter(), Counter({"1": restarts} if restarts else {}))
    return Trial(
        load=load,
        policy=policy,
        round=number,
        report=make_report(records, url="", model="tiny", load="", counted=counted),
        hit_share=0.25,
        engine_requests=list(engine_requests),
        processor_share=0.5,
        goodput_lost=goodput_lost,
    )
