import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.record import RequestRecord, TokenArrival
from loadtests.report import Report, distribution, make_report, percentile
from loadtests.report_text import report_text
from loadtests.server_counters import ServerCounters, parse_counters


def record(due_at: float, *times: float, error: str | None = None) -> RequestRecord:
    made = RequestRecord(due_at, ended_at=times[-1] if times else due_at + 1, error_kind=error)
    made.arrivals = [TokenArrival(at, 1) for at in times]
    made.prompt_tokens = 10
    return made


def report(*records: RequestRecord, counted: ServerCounters | None = None) -> Report:
    return make_report(records, url="http://x", model="tiny", load="2 at once", counted=counted)


@given(st.lists(st.floats(0, 1000), min_size=2, max_size=40), st.integers(1, 99))
def test_percentiles_are_those_of_the_standard_library(values: list[float], percent: int) -> None:
    expected = statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
    assert percentile(sorted(values), percent / 100) == pytest.approx(expected, abs=1e-9)


def test_the_distribution_of_one_value_is_that_value() -> None:
    only = distribution([3.0])
    assert only is not None
    assert {only.mean, only.p50, only.p99, only.maximum} == {3.0}


def test_there_is_no_distribution_of_nothing() -> None:
    assert distribution([]) is None


def test_throughput_counts_from_the_first_request_to_the_last_answer() -> None:
    made = report(record(0.0, 1.0, 2.0), record(1.0, 2.0, 3.0, 4.0))
    assert made.duration_seconds == 4.0
    assert made.output_tokens_per_second == pytest.approx(5 / 4)
    assert made.total_tokens_per_second == pytest.approx(25 / 4)
    assert made.requests_per_second == pytest.approx(2 / 4)


def test_latencies_are_of_whole_answers_and_errors_are_counted_beside_them() -> None:
    made = report(
        record(0.0, 1.0, 2.0), record(0.0, 9.0, error="timeout"), record(0.0, error="HTTP 503")
    )
    assert made.completed == 1
    assert made.errors == {"timeout": 1, "HTTP 503": 1}
    assert made.ttft_seconds is not None
    assert made.ttft_seconds.maximum == 1.0


def test_the_page_shows_the_split_over_engines() -> None:
    counted = parse_counters(
        "# TYPE quadriga_generation_tokens_total counter\n"
        'quadriga_generation_tokens_total{engine="0"} 30\n'
        'quadriga_generation_tokens_total{engine="1"} 10\n'
    )
    page = report_text(report(record(0.0, 1.0, 2.0), counted=counted))
    assert "engine 0          30 output tokens, 75.0%" in page
    assert "imbalance         1.500" in page
    assert "migrations        none" in page
    assert "moved requests    0" in page


def test_the_page_shows_latencies_in_milliseconds_and_errors_by_kind() -> None:
    failed = record(0.0, error="timeout")
    failed.error_detail = "no whole answer in 5 s"
    page = report_text(report(record(0.0, 0.25, 0.5), failed))
    assert "TTFT                   250.0" in page
    assert "error             1 × timeout, e.g. no whole answer in 5 s" in page
    assert "engines           unknown" in page


def test_a_page_can_be_made_of_errors_alone() -> None:
    page = report_text(report(record(0.0, error="timeout")))
    assert "0 of 1 completed" in page
