"""Engines as a policy sees them, made up."""

from collections.abc import Mapping
from types import MappingProxyType

from hypothesis import strategies as st

from cluster.wire.messages import EnginePhase, LoadReport
from frontend.engine_book import Charge, EngineLoad
from frontend.routing.view import RoutedRequest, RoutingView

NOTHING = Charge()
FOREVER = float("inf")


def engine(
    rank: int,
    age: float = 0.0,
    sent: Charge = NOTHING,
    withdrawn: Charge = NOTHING,
    in_flight: int = 0,
    known_seconds: float = FOREVER,
    measured: Mapping[str, float] = MappingProxyType({}),
    **fields: float,
) -> EngineLoad:
    """An engine with these fields in its newest report, and room for 10 000 tokens."""
    fields = {"report_seq": 1, "phase": EnginePhase.READY, **measured, **fields}
    report = LoadReport(rank, 1, **fields)  # type: ignore[arg-type]
    return EngineLoad(rank, report, age, sent, withdrawn, 10_000, in_flight, known_seconds)


def silent_engine(
    rank: int, sent: Charge = NOTHING, in_flight: int = 0, known_seconds: float = FOREVER
) -> EngineLoad:
    """An engine that has never reported."""
    return EngineLoad(rank, None, FOREVER, sent, NOTHING, 10_000, in_flight, known_seconds)


COUNTS = st.integers(0, 2**53)
ANY_FINITE = st.floats(-1e15, 1e15)
CHARGES = st.builds(Charge, COUNTS, COUNTS, COUNTS)


@st.composite
def any_loads(draw: st.DrawFn, rank: int) -> EngineLoad:
    """An engine with any numbers that the wire lets through."""
    report = st.builds(
        LoadReport,
        rank=st.just(rank),
        incarnation=st.integers(0, 3),
        report_seq=st.integers(0, 3),
        phase=st.just(EnginePhase.READY),
        seconds_since_step=ANY_FINITE,
        waiting=COUNTS,
        running=COUNTS,
        waiting_prompt_tokens=COUNTS,
        running_tokens=COUNTS,
        total_blocks=COUNTS,
        used_blocks=COUNTS,
        prefill_tokens_per_second=ANY_FINITE,
        decode_seconds_per_step=ANY_FINITE,
        decode_seconds_per_request=ANY_FINITE,
        decode_seconds_per_kv_token=ANY_FINITE,
        slowdown=ANY_FINITE,
    )
    return EngineLoad(
        rank,
        draw(st.none() | report),
        draw(st.floats(0, FOREVER)),
        draw(CHARGES),
        draw(CHARGES),
        draw(COUNTS),
        draw(COUNTS),
        draw(st.floats(0, FOREVER)),
    )


@st.composite
def any_views(draw: st.DrawFn) -> RoutingView:
    """Up to five engines, of any ranks."""
    ranks = draw(st.lists(st.integers(0, 65_535), min_size=1, max_size=5, unique=True))
    return RoutingView([draw(any_loads(rank)) for rank in ranks], draw(st.integers(1, 1000)))


@st.composite
def any_requests(draw: st.DrawFn, view: RoutingView) -> RoutedRequest:
    """A request with any hits in the engines of this view."""
    ranks = st.sampled_from([load.rank for load in view.loads])
    return RoutedRequest(draw(COUNTS), draw(st.dictionaries(ranks, COUNTS)))
