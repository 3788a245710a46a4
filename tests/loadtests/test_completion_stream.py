import json

from loadtests.completion_stream import CompletionStream, error_of_body
from loadtests.record import RequestRecord
from tests.loadtests.scripted_server import chunk, usage


def read(*events: str, expected: int | None = None) -> RequestRecord:
    record = RequestRecord(due_at=0.0)
    stream = CompletionStream(record, expected)
    for second, event in enumerate(events, 1):
        stream.add_event(event.encode(), float(second))
    stream.finish()
    return record


def test_token_ids_are_what_is_counted_where_they_are_sent() -> None:
    record = read(chunk([1]), chunk([2, 3], finish="length"), usage(3), "[DONE]", expected=3)
    assert record.error_kind is None
    assert [tuple(arrival) for arrival in record.arrivals] == [(1.0, 1), (2.0, 2)]
    assert record.prompt_tokens == 4
    assert record.finish_reason == "length"


def test_tokens_without_text_count_too() -> None:
    record = read(chunk([1], text=""), chunk([2], finish="stop"), usage(2), "[DONE]")
    assert record.output_tokens == 2


def test_continuous_usage_counts_where_there_are_no_token_ids() -> None:
    def event(completion_tokens: int, finish: str | None = None) -> str:
        choice = {"index": 0, "delta": {"content": "a"}, "finish_reason": finish}
        return json.dumps({"choices": [choice], "usage": {"completion_tokens": completion_tokens}})

    record = read(event(1), event(4, "stop"), usage(4), "[DONE]")
    assert [arrival.num_tokens for arrival in record.arrivals] == [1, 3]


def test_final_usage_corrects_the_count_of_events() -> None:
    record = read(chunk(), chunk(finish="stop"), usage(5), "[DONE]")
    assert record.error_kind is None
    assert record.output_tokens == 5


def test_moves_are_taken_from_the_servers_own_field() -> None:
    moved = json.dumps({"choices": [], "quadriga": {"migrations": 2, "engines": [1]}})
    assert read(chunk([1], finish="stop"), moved, usage(1), "[DONE]").migrations == 2


def test_usage_that_differs_from_the_tokens_is_an_error() -> None:
    record = read(chunk([1]), chunk([2], finish="stop"), usage(3), "[DONE]")
    assert record.error_kind == "usage differs from the tokens"
    assert record.error_detail == "usage says 3, 2 came"


def test_an_answer_of_another_length_than_asked_for_is_an_error() -> None:
    record = read(chunk([1], finish="length"), usage(1), "[DONE]", expected=2)
    assert record.error_kind == "wrong length"


def test_a_stream_without_its_end_is_an_error() -> None:
    assert read(chunk([1])).error_kind == "stream ended early"
    assert read(chunk([1], finish="stop"), usage(1)).error_kind == "stream ended early"
    assert read(chunk([1]), "[DONE]").error_kind == "stream ended early"


def test_an_error_in_the_stream_is_named_by_its_code() -> None:
    event = json.dumps({"error": {"message": "no moves left", "code": "engine_failed"}})
    record = read(chunk([1]), event)
    assert record.error_kind == "error in the stream: engine_failed"
    assert record.error_detail == "no moves left"


def test_bytes_that_are_no_chunk_are_an_error() -> None:
    assert read("nonsense").error_kind == "event that is no chunk"


def test_a_request_that_the_server_gave_up_is_an_error() -> None:
    record = read(chunk([1], finish="abort"), usage(1), "[DONE]")
    assert record.error_kind == "finish reason abort"


def test_an_error_body_is_named_by_status_and_code() -> None:
    body = b'{"error": {"message": "leaving", "type": "unavailable", "code": null}}'
    assert error_of_body(503, body) == ("HTTP 503 unavailable", "leaving")
    assert error_of_body(502, b"<html>") == ("HTTP 502", "<html>")
