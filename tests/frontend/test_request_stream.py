import pytest

from cluster.wire.messages import EngineCoreOutput
from cluster.wire.sampling import FinishReason, SamplingParams
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream, Told

aborted: list[str] = []
told: list[Told] = []


@pytest.fixture
def stream() -> RequestStream:
    aborted.clear()
    told.clear()
    request = GenerationRequest("r", [1, 2], [], SamplingParams(), arrived_at=0.0)
    return RequestStream(
        request, lambda stream: aborted.append(stream.request.request_id), on_told=told.append
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
    assert (aborted, told) == ([], [Told({}, FinishReason.ERROR)])


def test_an_end_is_told_once_and_aborts_once(stream: RequestStream) -> None:
    stream.end(FinishReason.STOP)
    stream.end()
    assert (aborted, told) == (["r"], [Told({}, FinishReason.STOP)])


async def test_the_consumer_says_where_an_answer_ends_though_its_engine_went_further(
    stream: RequestStream,
) -> None:
    stream.engine_rank = 0
    stream.put(output(0, 5, 6))
    stream.engine_rank = 1
    stream.put(output(2, 7, 8, reason=FinishReason.LENGTH))
    assert told == []
    batch = await stream.next()
    assert batch is not None
    stream.tell(batch, 3)
    stream.end(FinishReason.STOP)
    stream.end()
    assert told == [Told({0: 2, 1: 1}), Told({}, FinishReason.STOP)]
    assert aborted == []


async def test_a_client_that_leaves_before_it_is_told_of_the_end_has_left(
    stream: RequestStream,
) -> None:
    stream.put(output(0, 5, reason=FinishReason.LENGTH))
    stream.end()
    assert told == [Told({}, FinishReason.ABORT)]


async def test_a_failure_of_the_engine_is_the_end_whatever_becomes_of_it(
    stream: RequestStream,
) -> None:
    stream.put(output(0, reason=FinishReason.ERROR))
    stream.end()
    assert told == [Told({}, FinishReason.ERROR)]
