import pytest

from cluster.wire.messages import EngineCoreOutput
from cluster.wire.sampling import FinishReason, SamplingParams
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream

ended: list[tuple[str, FinishReason]] = []


@pytest.fixture
def stream() -> RequestStream:
    ended.clear()
    request = GenerationRequest("r", [1, 2], [], SamplingParams(), arrived_at=0.0)
    return RequestStream(
        request, lambda stream, why: ended.append((stream.request.request_id, why))
    )


def output(first: int, *token_ids: int, reason: FinishReason | None = None) -> EngineCoreOutput:
    return EngineCoreOutput("r", 0, first, list(token_ids), reason)


async def test_what_a_slow_reader_has_not_taken_is_merged(stream: RequestStream) -> None:
    stream.put(output(0, 5))
    stream.put(output(1, 6, 7))
    batch = await stream.next()
    assert batch is not None
    assert batch.token_ids == [5, 6, 7]
    assert await stream.next(timeout_seconds=0.01) is None


async def test_tokens_that_came_before_are_dropped(stream: RequestStream) -> None:
    stream.put(output(0, 5, 6))
    stream.put(output(1, 6, 7))
    assert stream.token_ids == [5, 6, 7]


def test_a_gap_is_a_bug_of_ours(stream: RequestStream) -> None:
    with pytest.raises(AssertionError):
        stream.put(output(1, 6))


async def test_the_last_batch_says_why(stream: RequestStream) -> None:
    stream.put(output(0, 5, reason=FinishReason.LENGTH))
    batch = await stream.next()
    assert batch is not None
    assert (batch.token_ids, batch.finish_reason) == ([5], FinishReason.LENGTH)


async def test_an_error_of_our_own_ends_the_stream(stream: RequestStream) -> None:
    stream.fail("no engine")
    batch = await stream.next()
    assert batch is not None
    assert (batch.finish_reason, batch.error) == (FinishReason.ERROR, "no engine")
    assert ended == []


def test_an_abort_is_told_once_and_only_before_the_end(stream: RequestStream) -> None:
    stream.abort(FinishReason.STOP)
    stream.abort()
    assert ended == [("r", FinishReason.STOP)]
