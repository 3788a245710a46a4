import pytest

from loadtests.record import RequestRecord, TokenArrival


def test_latencies_count_from_when_the_request_was_due() -> None:
    record = RequestRecord(due_at=10.0, ended_at=13.5)
    record.arrivals = [TokenArrival(11.0, 1), TokenArrival(12.0, 3), TokenArrival(13.0, 1)]
    assert record.output_tokens == 5
    assert record.ttft_seconds == 1.0
    assert record.tpot_seconds == pytest.approx(0.5)
    assert record.itl_seconds == [1.0, 1.0]
    assert record.e2e_seconds == 3.5


def test_a_request_without_tokens_has_no_token_latencies() -> None:
    record = RequestRecord(due_at=10.0, ended_at=11.0)
    assert record.ttft_seconds is None
    assert record.tpot_seconds is None
    assert record.itl_seconds == []


def test_a_single_token_has_no_time_per_further_token() -> None:
    record = RequestRecord(due_at=0.0, arrivals=[TokenArrival(1.0, 1)])
    assert record.tpot_seconds is None
