"""The numbers of a run, from the records of its requests."""

import math
from collections import Counter
from collections.abc import Sequence

import msgspec

from loadtests.record import RequestRecord
from loadtests.server_counters import ServerCounters


class Distribution(msgspec.Struct, frozen=True):
    """Some values, in brief; in the unit of the values."""

    mean: float
    p50: float
    p90: float
    p99: float
    maximum: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a run measured. Latencies are of whole answers only; errors are counted beside them."""

    url: str
    model: str
    load: str
    """The arrivals in words, e.g. `16 at once`."""
    requests: int
    completed: int
    errors: dict[str, int]
    error_examples: dict[str, str]
    duration_seconds: float
    """From the first request to the end of the last answer."""
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    output_tokens_per_second: float
    total_tokens_per_second: float
    """Prompt and output tokens together."""
    requests_per_second: float
    tokens_per_event: float
    """Above 1 where the server sends several tokens at once; ITL then counts each gap once."""
    ttft_seconds: Distribution | None
    tpot_seconds: Distribution | None
    itl_seconds: Distribution | None
    e2e_seconds: Distribution | None
    engine_tokens: dict[str, int] | None
    """Output tokens by engine, as the server counted them; None if it does not say."""
    moved_requests: int
    """Requests that went on in another engine, as their answers say."""
    migrations: dict[str, int] | None
    """The moves by cause, as the server counted them."""
    engine_restarts: dict[str, int] | None


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the rising, not empty `ordered` lies; between two values,
    on the straight line between them (numpy's default)."""
    position = share * (len(ordered) - 1)
    lower = math.floor(position)
    upper = math.ceil(position)
    return ordered[lower] + (ordered[upper] - ordered[lower]) * (position - lower)


def distribution(values: Sequence[float]) -> Distribution | None:
    """The distribution of `values`; None if there are none."""
    if not values:
        return None
    ordered = sorted(values)
    return Distribution(
        mean=math.fsum(ordered) / len(ordered),
        p50=percentile(ordered, 0.5),
        p90=percentile(ordered, 0.9),
        p99=percentile(ordered, 0.99),
        maximum=ordered[-1],
    )


def make_report(
    records: Sequence[RequestRecord],
    *,
    url: str,
    model: str,
    load: str,
    counted: ServerCounters | None,
) -> Report:
    """The report of a run with these records, at least one; `counted` is what the server added."""
    whole = [record for record in records if record.error_kind is None]
    failed = [record for record in records if record.error_kind is not None]
    duration_seconds = max(r.ended_at for r in records) - min(r.due_at for r in records)
    output_tokens = sum(record.output_tokens for record in records)
    prompt_tokens = sum(record.prompt_tokens for record in records)
    events = sum(len(record.arrivals) for record in records)
    return Report(
        url=url,
        model=model,
        load=load,
        requests=len(records),
        completed=len(whole),
        errors=dict(Counter(str(record.error_kind) for record in failed).most_common()),
        error_examples={str(r.error_kind): r.error_detail for r in reversed(failed)},
        duration_seconds=duration_seconds,
        prompt_tokens=prompt_tokens,
        cached_tokens=sum(record.cached_tokens for record in records),
        output_tokens=output_tokens,
        output_tokens_per_second=output_tokens / duration_seconds,
        total_tokens_per_second=(prompt_tokens + output_tokens) / duration_seconds,
        requests_per_second=len(whole) / duration_seconds,
        tokens_per_event=output_tokens / events if events else 0.0,
        ttft_seconds=distribution([r.ttft_seconds for r in whole if r.ttft_seconds is not None]),
        tpot_seconds=distribution([r.tpot_seconds for r in whole if r.tpot_seconds is not None]),
        itl_seconds=distribution([gap for r in whole for gap in r.itl_seconds]),
        e2e_seconds=distribution([r.e2e_seconds for r in whole]),
        engine_tokens=_sorted(counted.tokens_of_engine) if counted else None,
        moved_requests=sum(record.migrations > 0 for record in records),
        migrations=_added(counted.migrations_of_cause) if counted else None,
        engine_restarts=_added(counted.restarts_of_engine) if counted else None,
    )


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (len(item[0]), item[0])))


def _added(counts: Counter[str]) -> dict[str, int]:
    return {label: count for label, count in _sorted(counts).items() if count}
