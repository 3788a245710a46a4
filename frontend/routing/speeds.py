"""How fast engines are, by what they have measured, and which of them are clearly slower."""

from collections.abc import Sequence
from statistics import median_high, median_low
from typing import NamedTuple

from cluster.wire.messages import LoadReport
from frontend.engine_book import STALE_REPORT_SECONDS, EngineLoad

EQUAL_SPEED_RATIO = 1.7
"""Engines whose measured speeds differ by less are taken to be equally fast: on equal devices the
difference is noise, and balancing by noise keeps them unequally busy."""
SLOWED_DOWN_RATIO = 2.0
"""A momentary slowness counts from here on; less than that is a neighbour's passing work."""
MOMENT_FORGIVEN_SECONDS, LASTING_FORGIVEN_SECONDS = 1.0, 5.0
"""An idle engine's slowness counts half after so long: only new work can show that it is over. What
its usual steps say is more likely to last, and to try it costs somebody a slow answer."""
REFERENCE_REQUESTS = 8
"""The decode step by which engines are compared."""
LEAST_REQUEST_SHARE = 0.02
"""What a request adds to a step, at least, as a share of the step's fixed time."""
LEAST_MEASURED, MOST_MEASURED = 1e-9, 1e9
"""A rate or a time out of these bounds is nonsense, and as good as not measured."""


class Speeds(NamedTuple):
    """How fast engines are. The defaults are a prior, for before anything is measured."""

    prefill_tokens_per_second: float = 1000.0
    decode_seconds_per_step: float = 0.02
    decode_seconds_per_request: float = 0.002
    decode_seconds_per_kv_token: float = 1e-6
    reference_seconds: float = 0.02 + REFERENCE_REQUESTS * 0.002
    """Time of the decode step by which engines are compared."""


def typical_speeds(loads: Sequence[EngineLoad]) -> Speeds:
    """What the engine in the middle has measured; of two, the faster one."""
    reports = [load.report for load in loads if load.report is not None]
    rates = [report.prefill_tokens_per_second for report in reports]
    rates = [rate for rate in rates if LEAST_MEASURED < rate < MOST_MEASURED]
    decode = [(_reference_seconds(report), index) for index, report in enumerate(reports)]
    decode = [pair for pair in decode if LEAST_MEASURED < pair[0] < MOST_MEASURED]
    typical = Speeds()
    if decode:
        seconds, index = median_low(decode)
        report = reports[index]
        typical = Speeds(
            typical.prefill_tokens_per_second,
            report.decode_seconds_per_step,
            _seconds_per_request(report),
            report.decode_seconds_per_kv_token,
            seconds,
        )
    if rates:
        typical = typical._replace(prefill_tokens_per_second=median_high(rates))
    return typical


def _seconds_per_request(report: LoadReport) -> float:
    fitted = report.decode_seconds_per_request
    least = LEAST_REQUEST_SHARE * report.decode_seconds_per_step
    if fitted < least:
        return least
    return fitted


def _reference_seconds(report: LoadReport) -> float:
    """Time of the reference step by this engine's fit; 0 before it has decoded anything."""
    return report.decode_seconds_per_step + REFERENCE_REQUESTS * _seconds_per_request(report)


def decode_tokens_per_second(report: LoadReport) -> float:
    """What all running requests of an engine are given, by its fit; 0 if it has none, or measured nothing."""
    seconds = (
        report.decode_seconds_per_step
        + report.decode_seconds_per_request * report.running
        + report.decode_seconds_per_kv_token * report.running_tokens
    )
    return report.running / seconds if seconds > 0 else 0.0


class Slowness(NamedTuple):
    """How much slower than the typical engine one is; 1 unless it clearly is slower or faster."""

    prefill: float = 1.0
    decode: float = 1.0
    momentary: float = 1.0
    """Its recent steps against its own usual ones."""


NO_SLOWNESS = Slowness()


class SlownessScale:
    """Compares engines with the typical one."""

    def __init__(self, typical: Speeds) -> None:
        self._tokens_per_second = rate = typical.prefill_tokens_per_second
        self._reference_seconds = seconds = typical.reference_seconds
        self._least_rate, self._most_rate = rate / EQUAL_SPEED_RATIO, rate * EQUAL_SPEED_RATIO
        self._least_seconds, self._most_seconds = (
            seconds / EQUAL_SPEED_RATIO,
            seconds * EQUAL_SPEED_RATIO,
        )

    def of(self, load: EngineLoad) -> Slowness:
        """By what this engine's newest report says."""
        report = load.report
        if report is None:
            return NO_SLOWNESS
        rate, seconds = report.prefill_tokens_per_second, _reference_seconds(report)
        prefill = decode = momentary = 1.0
        if not self._least_rate < rate < self._most_rate and _is_measured(rate):
            prefill = self._tokens_per_second / rate
        if not self._least_seconds < seconds < self._most_seconds and _is_measured(seconds):
            decode = seconds / self._reference_seconds
        if report.slowdown > SLOWED_DOWN_RATIO:
            momentary = report.slowdown
        if prefill == decode == momentary == 1.0:
            return NO_SLOWNESS
        unproven_seconds = _unproven_seconds(load, report)
        lasting = 0.5 ** (unproven_seconds / LASTING_FORGIVEN_SECONDS)
        of_a_moment = 0.5 ** (unproven_seconds / MOMENT_FORGIVEN_SECONDS)
        return Slowness(prefill**lasting, decode**lasting, momentary**of_a_moment)


def _is_measured(rate_or_seconds: float) -> bool:
    return LEAST_MEASURED < rate_or_seconds < MOST_MEASURED


def _unproven_seconds(load: EngineLoad, report: LoadReport) -> float:
    """For how long nothing has shown that this engine is still slow, or could have."""
    if report.waiting + report.running == 0:
        return max(0.0, report.seconds_since_step) + load.report_age_seconds
    return load.report_age_seconds if load.report_age_seconds > STALE_REPORT_SECONDS else 0.0
