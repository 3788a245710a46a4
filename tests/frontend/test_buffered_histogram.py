"""A histogram that writes later what another writes at once."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Histogram

from cluster.telemetry.metrics import histogram
from frontend.buffered_histogram import buffered_histogram

NAME = "inter_token_latency_seconds"


def said_by(metric: Histogram) -> list[tuple[str, dict[str, str], float]]:
    """All samples but the time of its making."""
    return [
        (sample.name, sample.labels, round(sample.value, 6))
        for family in metric.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]


@given(st.lists(st.lists(st.floats(0.0, 100.0) | st.just(0.025)), max_size=4))
def test_after_a_flush_it_says_what_a_plain_one_says(batches: list[list[float]]) -> None:
    plain, buffered = histogram(NAME), buffered_histogram(NAME)
    buffered_child = buffered.labels("m", "0")
    for batch in batches:
        for value in batch:
            plain.labels("m", "0").observe(value)
            buffered_child.note(value)
        buffered_child.flush()
        if batch:
            assert said_by(buffered) == said_by(plain)


def test_before_a_flush_it_says_nothing() -> None:
    buffered = buffered_histogram(NAME)
    buffered.labels("m", "0").note(0.1)
    assert sum(value for _, _, value in said_by(buffered)) == 0
