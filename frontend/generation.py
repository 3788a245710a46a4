"""The choices of one client request, running in the engines."""

import asyncio
from dataclasses import dataclass

import msgspec

from frontend.engine_client import EngineClient, submit_all
from frontend.input_processor import PreparedRequest
from frontend.output_processor import ChoiceDelta, OutputProcessor
from frontend.request_stream import Consumer, RequestStream, TokenBatch
from frontend.tokenizer import Tokenizer

MAX_BATCHES_AHEAD = 16
"""What is read ahead of a slow client; the streams merge what comes after."""


@dataclass(slots=True)
class Choice:
    """One sequence being generated."""

    stream: RequestStream
    processor: OutputProcessor
    is_finished: bool = False


class IndexedDelta(msgspec.Struct, frozen=True):
    """News of one choice."""

    index: int
    delta: ChoiceDelta


class Generation:
    """Merges the streams of all choices, and ends each exactly once."""

    def __init__(self, choices: list[Choice]) -> None:
        self.choices = choices
        self._queue: asyncio.Queue[tuple[TokenBatch, int]] = asyncio.Queue(MAX_BATCHES_AHEAD)
        self._readers: list[asyncio.Task[None]] = []
        self._num_unfinished = len(choices)

    @classmethod
    def submit(
        cls, client: EngineClient, prepared: PreparedRequest, tokenizer: Tokenizer
    ) -> "Generation":
        """Send every choice to an engine. Raises what `EngineClient.submit` does, then sends none."""
        processors = [
            OutputProcessor(tokenizer, request.prompt_token_ids, prepared.options)
            for request in prepared.requests
        ]
        streams = submit_all(client, prepared.requests)
        return cls([Choice(*pair) for pair in zip(streams, processors, strict=True)])

    @property
    def is_finished(self) -> bool:
        """Whether every choice has ended."""
        return self._num_unfinished == 0

    @property
    def is_resumable(self) -> bool:
        """Whether every choice can go on in another engine if its own fails."""
        return all(choice.stream.is_resumable for choice in self.choices)

    def process(self, index: int, batch: TokenBatch) -> IndexedDelta | None:
        """What a batch of this choice comes to, which counts as told; None if it is nothing.

        Raises EngineFailed or NotServing if the choice cannot be finished.
        """
        choice = self.choices[index]
        if batch.is_empty or choice.is_finished:
            return None
        delta = choice.processor.process(batch)
        choice.stream.tell(batch, len(delta.token_ids))
        if delta.finish_reason is not None:
            choice.is_finished = True
            self._num_unfinished -= 1
            # After a stop string the engine may not know yet that this is the end.
            choice.stream.end(delta.finish_reason)
        return IndexedDelta(index, delta)

    def abort(self) -> None:
        """End what has not ended, in the engines too."""
        for reader in self._readers:
            reader.cancel()
        for choice in self.choices:
            choice.is_finished = True
            choice.stream.end()

    async def next_batch(
        self, timeout_seconds: float | None, consumer: Consumer
    ) -> tuple[TokenBatch, int] | None:
        """What has arrived for any choice, and its index, to be processed; None if nothing came in time.

        What the consumer of an only choice takes meanwhile is not among it.
        """
        if len(self.choices) == 1:  # no queue, no second task in the way of its tokens
            batch = await self.choices[0].stream.next(timeout_seconds, consumer)
            return None if batch is None else (batch, 0)
        if not self._readers:
            self._readers = [asyncio.create_task(self._read(i)) for i in range(len(self.choices))]
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._queue.get()
        except TimeoutError:
            return None

    async def _read(self, index: int) -> None:
        choice = self.choices[index]
        while not choice.is_finished:
            batch = await choice.stream.next()
            assert batch is not None, "only a wait with a time limit ends without news"
            await self._queue.put((batch, index))
            if batch.finish_reason is not None:
                return
