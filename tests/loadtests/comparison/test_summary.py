import math

from loadtests.comparison.summary import Measure, summarize
from tests.loadtests.comparison.made_up import trial


def test_a_measure_is_the_median_of_the_rounds_and_their_extremes() -> None:
    assert Measure.of([3.0, 1.0, 2.0]) == Measure(2.0, 1.0, 3.0)


def test_a_summary_takes_the_rounds_together() -> None:
    summary = summarize(
        [
            trial("vllm", 0.125, 0.375, engine_requests=(3, 1)),
            trial("vllm", 0.5, number=1, errors=1, engine_requests=(1, 1), goodput_lost=0.1),
        ]
    )
    assert summary.ttft_mean_seconds == Measure(0.375, 0.25, 0.5)
    assert summary.engine_requests == [4, 2]
    assert summary.busiest_share == Measure(1.25, 1.0, 1.5)
    assert (summary.requests, summary.failed_requests) == (4, 1)
    assert summary.goodput_lost == 0.1


def test_a_trial_without_a_whole_answer_has_no_times() -> None:
    summary = summarize([trial("vllm", errors=2)])
    assert math.isnan(summary.ttft_mean_seconds.median)
    assert summary.failed_requests == 2
