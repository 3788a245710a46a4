"""Tokens that are taken and sent on the spot, and what is left to the task that waits."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cluster.wire.messages import EngineCoreOutput
from cluster.wire.sampling import FinishReason, SamplingParams
from frontend.courier import Courier
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream, TokenBatch

LONG_SECONDS = 30.0


class Consumer:
    """Writes down what it does; sends as long as it `is_free`."""

    def __init__(self, log: list[str], name: str = "a") -> None:
        self.is_free = True
        self.error: Exception | None = None
        self.send_error: Exception | None = None
        self._log, self._name = log, name

    def take(self, batch: TokenBatch) -> None:
        if self.error is not None:
            raise self.error
        self._log.append(f"{self._name} takes {batch.token_ids}")

    def send(self) -> bool:
        if self.send_error is not None:
            raise self.send_error
        self._log.append(f"{self._name} sends")
        return self.is_free


class Desk:
    """Streams with a courier, and the tasks that wait for them."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.count_error: Exception | None = None
        self._courier = Courier(self._counted_together)

    @contextmanager
    def _counted_together(self) -> Iterator[None]:
        yield
        if self.count_error is not None:
            raise self.count_error
        self.log.append("counted")

    async def stream(
        self, consumer: Consumer
    ) -> "tuple[RequestStream, asyncio.Task[TokenBatch | None]]":
        """One for which a task waits by now."""
        request = GenerationRequest("r", [1, 2], [], SamplingParams(), arrived_at=0.0)
        stream = RequestStream(request, lambda _: None, on_news=self._courier.call)
        return stream, await self.wait_for(stream, consumer)

    async def wait_for(
        self, stream: RequestStream, consumer: Consumer, seconds: float = LONG_SECONDS
    ) -> "asyncio.Task[TokenBatch | None]":
        task = asyncio.create_task(stream.next(seconds, consumer))
        await asyncio.sleep(0)
        return task


@pytest.fixture
def desk() -> Desk:
    return Desk()


def output(first: int, *token_ids: int, reason: FinishReason | None = None) -> EngineCoreOutput:
    return EngineCoreOutput("r", 0, first, list(token_ids), reason)


async def turns() -> None:
    """What is due in the event loop, and what becomes due by it."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_what_one_turn_brings_is_taken_by_all_and_counted_before_any_of_it_is_sent(
    desk: Desk,
) -> None:
    (first, task), (second, other) = [await desk.stream(Consumer(desk.log, n)) for n in "ab"]
    first.put(output(0, 5))
    second.put(output(0, 7))
    first.put(output(1, 6))
    assert desk.log == []
    await turns()
    assert desk.log[:4] == ["a takes [5, 6]", "b takes [7]", "a takes []", "counted"]
    assert not task.done()
    assert not other.done()
    first.put(output(2, 8))
    await turns()
    assert desk.log[-3:] == ["a takes [8]", "counted", "a sends"]
    for stream in (first, second):
        stream.end()
    for each in (task, other):
        each.cancel()


async def test_the_end_is_for_the_task_with_all_that_came_in_the_same_turn(desk: Desk) -> None:
    stream, task = await desk.stream(Consumer(desk.log))
    stream.put(output(0, 5))
    stream.put(output(1, 6, reason=FinishReason.STOP))
    batch = await task
    assert batch is not None
    assert (batch.token_ids, batch.finish_reason) == ([5, 6], FinishReason.STOP)
    assert desk.log == ["counted"]


async def test_what_cannot_be_sent_at_once_wakes_the_task(desk: Desk) -> None:
    consumer = Consumer(desk.log)
    consumer.is_free = False
    stream, task = await desk.stream(consumer)
    stream.put(output(0, 5))
    batch = await task
    assert batch is not None
    assert batch.is_empty
    stream.put(output(1, 6))  # nobody has lent a consumer now
    await turns()
    assert desk.log == ["a takes [5]", "counted", "a sends"]
    batch = await stream.next()
    assert batch is not None
    assert batch.token_ids == [6]
    stream.end()


async def test_an_error_of_a_consumer_is_its_tasks_and_nobody_elses(desk: Desk) -> None:
    broken = Consumer(desk.log, "a")
    broken.error = ValueError("no such token")
    (first, failing), (second, task) = [
        await desk.stream(consumer) for consumer in (broken, Consumer(desk.log, "b"))
    ]
    first.put(output(0, 5))
    second.put(output(0, 7))
    with pytest.raises(ValueError, match="no such token"):
        await failing
    assert desk.log == ["b takes [7]", "counted", "b sends"]
    assert not task.done()
    task.cancel()
    second.end()


async def test_an_error_while_one_sends_is_its_tasks_too(desk: Desk) -> None:
    broken = Consumer(desk.log, "a")
    broken.send_error = OSError("no route")
    (first, failing), (second, task) = [
        await desk.stream(consumer) for consumer in (broken, Consumer(desk.log, "b"))
    ]
    first.put(output(0, 5))
    second.put(output(0, 7))
    with pytest.raises(OSError, match="no route"):
        await failing
    assert desk.log[-1] == "b sends"
    task.cancel()
    second.end()


async def test_tokens_are_sent_though_they_cannot_be_counted(desk: Desk) -> None:
    complaints: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context["exception"]))
    desk.count_error = OSError("the disk is full")
    stream, task = await desk.stream(Consumer(desk.log))
    stream.put(output(0, 5))
    await turns()
    assert desk.log == ["a takes [5]", "a sends"]
    assert complaints == [desk.count_error]
    task.cancel()
    stream.end()


async def test_a_task_that_was_cancelled_has_nothing_taken_in_its_place(desk: Desk) -> None:
    stream, task = await desk.stream(Consumer(desk.log))
    stream.put(output(0, 5))
    task.cancel()
    await turns()
    stream.put(output(1, 6))
    await turns()
    assert not any("6" in line for line in desk.log)
    stream.end()


async def test_tokens_that_are_taken_put_off_the_end_of_the_wait(desk: Desk) -> None:
    consumer = Consumer(desk.log)
    stream, task = await desk.stream(consumer)
    task.cancel()
    await turns()
    task = await desk.wait_for(stream, consumer, seconds=0.2)
    loop = asyncio.get_running_loop()
    began_at, index = loop.time(), 0
    while loop.time() < began_at + 0.5:  # more than twice the limit
        stream.put(output(index, 5))
        index += 1
        await asyncio.sleep(0.01)
        assert not task.done()
    assert await task is None
    assert loop.time() >= began_at + 0.69
    stream.end()
