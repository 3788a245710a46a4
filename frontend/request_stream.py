"""The stream of one request's tokens, which outlives the engines that produce it."""

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from cluster.errors import EngineFailed, NotServing
from cluster.wire.messages import Blob, EngineCoreOutput, TokenLogprobs
from cluster.wire.sampling import FinishReason
from frontend.request import GenerationRequest
from frontend.wake_up import WakeUp


class TokenBatch(msgspec.Struct):
    """Everything that has arrived for a request since it was last asked."""

    token_ids: list[int] = []
    tokens_by_rank: dict[int | None, int] = {}
    """How many of them came from each engine, in the order of their coming."""
    logprobs: list[TokenLogprobs] = []
    """Blocks that together cover `token_ids`, if the request wants logprobs."""
    prompt_logprobs: list[TokenLogprobs] = []
    """Blocks that together cover the prompt from its second token on, if asked for."""
    finish_reason: FinishReason | None = None
    stop_token_id: int | None = None
    """The token that ended the request, if one did; it is the last of `token_ids`."""
    error: str = ""
    retry_after_seconds: int | None = None
    """With an error: the same request may well succeed after so long."""
    vector: Blob | None = None
    """The answer to a request that pools: float32 in native order."""

    def check(self) -> None:
        """Raises EngineFailed or NotServing if the request failed."""
        if self.finish_reason is FinishReason.ERROR:
            if self.retry_after_seconds is not None:
                raise NotServing(self.error, self.retry_after_seconds)
            raise EngineFailed(self.error or "the request failed in the engine")

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        return not self.token_ids and not self.prompt_logprobs and self.finish_reason is None


class Told(msgspec.Struct, frozen=True):
    """What the client of a request is told: some tokens, its end, or both."""

    tokens_by_rank: Mapping[int | None, int]
    """How many tokens, by the engine that made them."""
    finish_reason: FinishReason | None = None
    """Why it ended, as far as the client sees."""


class Consumer(Protocol):
    """What a task that waits for a stream lends it, so that it need not wake up for what is plain."""

    def take(self, batch: TokenBatch) -> None:
        """Make of a batch what the client is to get, and tell the stream of it."""
        ...

    def send(self) -> bool:
        """Send that as far as nothing has to be waited for; False if something is left for the task."""
        ...


def _to_nobody(_: Told) -> None:
    pass


class RequestStream:
    """One request's tokens in order, each once, whichever engines they come from.

    The client puts outputs in; one task takes them out with `next`. What it has not taken yet is
    merged into one batch, so a slow reader costs no more than its own tokens.

    The consumer, not the engine, knows where the answer ends: a stop string may lie before an end
    that the engine has reached already. So it says with `tell` and `end` what became of a batch, and
    that is what counts.
    """

    def __init__(
        self,
        request: GenerationRequest,
        on_abort: Callable[["RequestStream"], None],
        is_resumable: bool = True,
        on_told: Callable[[Told], None] = _to_nobody,
        on_news: Callable[["RequestStream"], None] | None = None,
    ) -> None:
        """`on_told` hears of what the client is told, and of the end exactly once.

        `on_news` hears of what arrives in mid-stream while a consumer is lent, which then waits for
        `hand_over`; without it the task wakes up for everything.
        """
        self.request = request
        self.is_resumable = is_resumable
        """Whether another engine could go on with it; otherwise its tokens are not kept."""
        self.token_ids: list[int] = []
        """All output tokens that have arrived, if it is resumable: what another engine needs."""
        self.num_output_tokens = 0
        """How many output tokens have arrived."""
        self.num_migrations = 0
        self.cached_tokens = 0
        """Prompt tokens that the first engine had in its prefix cache."""
        self.engine_rank: int | None = None
        """The engine that has it now; None while no engine has it."""
        self.is_finished = False
        """Whether nothing more will come; the consumer may not have taken all of it yet."""
        self._is_end_told = False
        self._on_abort = on_abort
        self._on_told = on_told
        self._on_news = on_news
        self._consumer: Consumer | None = None
        """While the task waits, if it has lent one."""
        self._failure: Exception | None = None
        """Of the consumer, for its task."""
        self._batch = TokenBatch()
        self._arrived = WakeUp()

    def put(self, output: EngineCoreOutput) -> None:
        """Add what an engine produced; tokens that are here already are dropped."""
        assert not self.is_finished, f"{self.request.request_id} has ended and gets more"
        known = self.num_output_tokens - output.first_output_index
        assert known >= 0, (
            f"{self.request.request_id}: output {output.first_output_index}"
            f" after {self.num_output_tokens}"
        )
        fresh = output.token_ids[known:] if known else output.token_ids
        batch = self._batch
        if fresh:
            self.num_output_tokens += len(fresh)
            if self.is_resumable:
                self.token_ids += fresh
            batch.token_ids += fresh
            rank, by_rank = self.engine_rank, batch.tokens_by_rank
            by_rank[rank] = by_rank.get(rank, 0) + len(fresh)
            if output.logprobs is not None:
                batch.logprobs.append(output.logprobs)
        if output.prompt_logprobs is not None:
            batch.prompt_logprobs.append(output.prompt_logprobs)
        if output.finish_reason is not None:
            batch.finish_reason = output.finish_reason
            batch.stop_token_id = output.stop_token_id
            batch.error = output.error
            batch.vector = output.vector
            self.is_finished = True
            if output.finish_reason is FinishReason.ERROR:
                self._tell_end(FinishReason.ERROR)  # whatever the text may be
        if self._consumer is None or self._on_news is None or self.is_finished:
            self._arrived.call()
        else:
            self._on_news(self)

    def fail(self, error: str, retry_after_seconds: int | None = None) -> None:
        """End the stream with an error of our own side."""
        if not self.is_finished:
            self.is_finished = True
            self._batch.finish_reason = FinishReason.ERROR
            self._batch.error = error
            self._batch.retry_after_seconds = retry_after_seconds
            self._arrived.call()
            self._tell_end(FinishReason.ERROR)

    async def next(
        self, timeout_seconds: float | None = None, consumer: Consumer | None = None
    ) -> TokenBatch | None:
        """What has arrived since the last call, waiting for at least something.

        None if nothing came within `timeout_seconds`. The batch with a `finish_reason` is the last.
        The consumer may take batches while this waits. Where it leaves something to its task, this
        returns, with a batch that may be empty; or raises what the consumer has raised.
        """
        self._consumer = consumer
        try:
            has_arrived = await self._arrived.wait(timeout_seconds)
        finally:
            self._consumer = None
        if self._failure is not None:
            raise self._failure
        if not has_arrived:
            return None
        batch, self._batch = self._batch, TokenBatch()
        return batch

    def hand_over(self) -> bool:
        """Let the consumer take what is here; False if there is none, or its task is to do it."""
        consumer = self._consumer
        if consumer is None or self.is_finished:
            return False
        batch, self._batch = self._batch, TokenBatch()
        try:
            consumer.take(batch)
        except Exception as error:  # noqa: BLE001 - the task raises it
            self._fail_consumer(error)
            return False
        return True

    def send(self) -> None:
        """Let the consumer send what it has taken, and its task do the rest."""
        assert self._consumer is not None, "it has just taken something"
        try:
            is_all = self._consumer.send()
        except Exception as error:  # noqa: BLE001 - the task raises it
            self._fail_consumer(error)
            return
        if is_all:
            self._arrived.postpone()
        else:
            self._arrived.call()

    def _fail_consumer(self, error: Exception) -> None:
        self._failure = error
        self._arrived.call()

    def tell(self, batch: TokenBatch, num_tokens: int) -> None:
        """The client is told of the first `num_tokens` of the batch; the others lie behind its end."""
        if num_tokens == len(batch.token_ids):
            if num_tokens:
                self._on_told(Told(batch.tokens_by_rank))
            return
        told: dict[int | None, int] = {}
        for rank, count in batch.tokens_by_rank.items():
            taken = min(count, num_tokens)
            if taken:
                told[rank] = taken
            num_tokens -= taken
        if told:
            self._on_told(Told(told))

    def end(self, reason: FinishReason = FinishReason.ABORT) -> None:
        """End the request for this reason, in the engine too if it goes on there.

        Harmless if it has ended already.
        """
        self._arrived.close()
        if not self.is_finished:
            self.is_finished = True
            self._on_abort(self)
        self._tell_end(reason)

    def _tell_end(self, reason: FinishReason) -> None:
        if not self._is_end_told:
            self._is_end_told = True
            self._on_told(Told({}, reason))
