"""What a frontend tells of its choices, and how people read it."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec


class Terms(msgspec.Struct, frozen=True):
    """What the cost of a request at one engine was made of."""

    total_seconds: float
    prefill_seconds: float
    decode_seconds: float
    cache_bar_seconds: float
    slowness: Mapping[str, float]


class ConsideredEngine(msgspec.Struct, frozen=True):
    """One engine as it was seen at a choice; `terms` by the policy that has them, others `score`."""

    engine: int
    took_part: bool
    report_age_seconds: float | None
    hit_tokens: int
    unacknowledged: int
    waiting: int | None
    running: int | None
    terms: Terms | None = None
    score: float | None = None


class Decision(msgspec.Struct, frozen=True):
    """One choice."""

    age_seconds: float
    request_id: str
    policy: str
    context_tokens: int
    chosen: int
    engines: Sequence[ConsideredEngine]


class Decisions(msgspec.Struct, frozen=True):
    """The answer of `GET /cluster/decisions`, the newest first."""

    decisions: Sequence[Decision]
    answered_by: Mapping[str, int] | None = None


_HEADINGS = ("", "ENGINE", "COST", "PREFILL", "DECODE", "CACHE", "HIT", "RUNNING", "WAITING",
             "UNSEEN", "DATA", "")  # fmt: skip


def render_decisions(answer: Decisions) -> str:
    """A paragraph a decision: the request, then a row for each engine, `>` before the chosen one."""
    frontend = (answer.answered_by or {}).get("frontend")
    who = "this frontend" if frontend is None else f"frontend {frontend}"
    if not answer.decisions:
        return f"{who} has not chosen an engine yet"
    head = f"the last choices of {who}, the newest first; costs in seconds, HIT in tokens"
    return "\n".join([head, *(line for decision in answer.decisions for line in _lines(decision))])


def _lines(decision: Decision) -> Iterator[str]:
    yield ""
    yield (
        f"{decision.age_seconds:.1f} s ago, {decision.policy}: {decision.request_id}, "
        f"{decision.context_tokens} tokens, to engine {decision.chosen}"
    )
    rows = [_HEADINGS, *(_row(engine, decision.chosen) for engine in decision.engines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        *cells, notes = row
        aligned = [cell.rjust(width) for cell, width in zip(cells, widths, strict=False)]
        yield "  ".join([*aligned, notes]).rstrip()


def _row(engine: ConsideredEngine, chosen: int) -> tuple[str, ...]:
    terms = engine.terms
    age = engine.report_age_seconds
    return (
        ">" if engine.engine == chosen else "",
        str(engine.engine),
        _number(terms.total_seconds if terms is not None else engine.score),
        _number(terms.prefill_seconds if terms is not None else None),
        _number(terms.decode_seconds if terms is not None else None),
        _number(terms.cache_bar_seconds if terms is not None else None),
        str(engine.hit_tokens),
        "-" if engine.running is None else str(engine.running),
        "-" if engine.waiting is None else str(engine.waiting),
        str(engine.unacknowledged),
        "none" if age is None else f"{age * 1000:.0f} ms",
        ", ".join(_notes(engine)),
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _notes(engine: ConsideredEngine) -> Iterator[str]:
    if not engine.took_part:
        yield "did not take part"
    for name, factor in (engine.terms.slowness if engine.terms is not None else {}).items():
        if factor != 1:
            yield f"{name} {factor:.1f} times slower"
