"""How fast engines are, by what they have measured, and which of them are clearly slower."""

from collections.abc import Sequence
from statistics import median_high, median_low
from typing import NamedTuple

from cluster.wire.messages import LoadReport
from frontend.engine_book import EngineLoad

EQUAL_SPEED_RATIO = 1.7
"""Engines whose measured speeds differ by less are taken to be equally fast: on equal devices the
difference is noise, and balancing by noise keeps them unequally busy."""
SLOWED_DOWN_RATIO = 2.0
"""A momentary slowness counts from here on; less than that is a neighbour's passing work."""
FORGIVEN_SECONDS = 1.0
"""An idle engine's slowness counts half after so long: only new work can show that it is over."""
REFERENCE_REQUESTS = 8
"""The decode step by which engines are compared."""
LEAST_REQUEST_SHARE = 0.02
"""What a request adds to a step, at least, as a share of the step's fixed time."""


class Speeds(NamedTuple):
    """How fast engines are. The defaults are a prior, for before anything is measured."""

    prefill_tokens_per_second: float = 1000.0
    decode_seconds_per_step: float = 0.02
    decode_seconds_per_request: float = 0.002
    decode_seconds_per_kv_token: float = 1e-6

    def decode_seconds(self, requests: float, kv_tokens: float) -> float:
        """Time of a decode step."""
        per_request = max(
            self.decode_seconds_per_request, LEAST_REQUEST_SHARE * self.decode_seconds_per_step
        )
        return (
            self.decode_seconds_per_step
            + per_request * requests
            + self.decode_seconds_per_kv_token * kv_tokens
        )

    @property
    def reference_seconds(self) -> float:
        """Time of the step by which engines are compared."""
        return self.decode_seconds(REFERENCE_REQUESTS, 0)


def typical_speeds(loads: Sequence[EngineLoad]) -> Speeds:
    """What the engine in the middle has measured; of two, the faster one."""
    reports = [load.report for load in loads if load.report is not None]
    prefill = [r.prefill_tokens_per_second for r in reports if r.prefill_tokens_per_second]
    decode = [speeds for r in reports if (speeds := _decode_speeds(r)) is not None]
    typical = Speeds()
    if decode:
        seconds = median_low([speeds.reference_seconds for speeds in decode])
        typical = next(speeds for speeds in decode if speeds.reference_seconds == seconds)
    if prefill:
        typical = typical._replace(prefill_tokens_per_second=median_high(prefill))
    return typical


def _decode_speeds(report: LoadReport) -> Speeds | None:
    """The decode terms that an engine has measured; None before it has decoded anything."""
    speeds = Speeds(
        decode_seconds_per_step=report.decode_seconds_per_step,
        decode_seconds_per_request=report.decode_seconds_per_request,
        decode_seconds_per_kv_token=report.decode_seconds_per_kv_token,
    )
    return speeds if speeds.reference_seconds > 0 else None


class Slowness(NamedTuple):
    """How much slower than the typical engine one is; 1 unless it clearly is slower or faster."""

    prefill: float = 1.0
    decode: float = 1.0
    momentary: float = 1.0
    """Its recent steps against its own usual ones."""

    @classmethod
    def of(cls, load: EngineLoad, typical: Speeds) -> "Slowness":
        """By what this engine's newest report says."""
        report = load.report
        if report is None:
            return cls()
        idle_seconds = 0.0
        if report.waiting + report.running == 0:
            idle_seconds = report.seconds_since_step + load.report_age_seconds
        weight = 0.5 ** (idle_seconds / FORGIVEN_SECONDS)
        rate, own = report.prefill_tokens_per_second, _decode_speeds(report)
        prefill = typical.prefill_tokens_per_second / rate if rate else 1.0
        decode = own.reference_seconds / typical.reference_seconds if own is not None else 1.0
        momentary = report.slowdown if report.slowdown > SLOWED_DOWN_RATIO else 1.0
        return cls(
            _unless_equal(prefill) ** weight, _unless_equal(decode) ** weight, momentary**weight
        )


def _unless_equal(ratio: float) -> float:
    """The ratio of two speeds, or 1 if they are as good as equal."""
    return ratio if not 1 / EQUAL_SPEED_RATIO < ratio < EQUAL_SPEED_RATIO else 1.0
