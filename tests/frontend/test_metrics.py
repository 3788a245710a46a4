"""When what comes with every token is seen in the metrics."""

from contextlib import suppress

from prometheus_client import Counter, Histogram

from cluster.wire.sampling import FinishReason
from frontend.metrics import FrontendMetrics


def total(metric: Counter | Histogram, ending: str) -> float:
    return sum(
        sample.value
        for family in metric.collect()
        for sample in family.samples
        if sample.name.endswith(ending)
    )


def seen(metrics: FrontendMetrics) -> tuple[float, float]:
    """Tokens, and gaps between them."""
    return (
        total(metrics._generation_tokens, "_total"),
        total(metrics._inter_token_latency, "_count"),
    )


def test_tokens_are_seen_with_the_end_of_a_request_whichever_engines_made_them() -> None:
    metrics = FrontendMetrics("m", 0)
    metrics.tokens(0, 3)
    metrics.tokens(1, 2)
    metrics.next_tokens(0, 0.02)
    metrics.next_tokens(1, 0.03)
    metrics.ended(1, FinishReason.STOP, 1.0, 5, 5, 0.5)
    assert seen(metrics) == (5, 2)


def test_tokens_of_requests_that_go_on_are_seen_with_the_next_look_at_the_loop() -> None:
    metrics = FrontendMetrics("m", 0)
    metrics.tokens(None, 1)
    metrics.next_tokens(0, 0.02)
    metrics.loop_state(0, 0, 0.0)
    metrics.loop_state(0, 0, 0.0)
    assert seen(metrics) == (1, 1)


def test_a_token_is_seen_as_soon_as_a_client_is_told_of_it() -> None:
    metrics = FrontendMetrics("m", 0)
    metrics.tokens(0, 1)
    metrics.tokens(0, 2)
    metrics.tokens(None, 1)
    assert total(metrics._generation_tokens, "_total") == 4


def test_tokens_that_are_told_together_are_seen_before_anybody_is_told() -> None:
    metrics = FrontendMetrics("m", 0)
    with metrics.counted_together():
        for rank, count in ((0, 1), (1, 2), (0, 3), (None, 1)):
            metrics.tokens(rank, count)
        assert total(metrics._generation_tokens, "_total") == 0
    assert total(metrics._generation_tokens, "_total") == 7
    metrics.tokens(0, 1)
    assert total(metrics._generation_tokens, "_total") == 8


def test_what_was_told_before_an_error_is_seen() -> None:
    metrics = FrontendMetrics("m", 0)
    with suppress(ValueError), metrics.counted_together():
        metrics.tokens(0, 2)
        raise ValueError("too late")
    assert total(metrics._generation_tokens, "_total") == 2
