"""The stream of one request's tokens, which outlives the engines that produce it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from cluster.wire.messages import EngineCoreOutput, TokenLogprobs
from cluster.wire.sampling import FinishReason
from frontend.request import GenerationRequest


@dataclass(slots=True)
class TokenBatch:
    """Everything that has arrived for a request since it was last asked."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    """Blocks that together cover `token_ids`, if the request wants logprobs."""
    prompt_logprobs: list[TokenLogprobs] = field(default_factory=list)
    """Blocks that together cover the prompt from its second token on, if asked for."""
    finish_reason: FinishReason | None = None
    stop_token_id: int | None = None
    """The token that ended the request, if one did; it is the last of `token_ids`."""
    error: str = ""
    retry_after_seconds: int | None = None
    """With an error: the same request may well succeed after so long."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        return not self.token_ids and not self.prompt_logprobs and self.finish_reason is None


class RequestStream:
    """One request's tokens in order, each once, whichever engines they come from.

    The client puts outputs in; one consumer takes them out with `next`. What the consumer has not
    taken yet is merged into one batch, so a slow reader costs no more than its own tokens.
    """

    def __init__(
        self, request: GenerationRequest, on_abort: Callable[["RequestStream", FinishReason], None]
    ) -> None:
        self.request = request
        self.token_ids: list[int] = []
        """All output tokens that have arrived: what another engine needs to go on."""
        self.num_migrations = 0
        self.cached_tokens = 0
        """Prompt tokens that the first engine had in its prefix cache."""
        self.engine_rank: int | None = None
        """The engine that has it now; None while no engine has it."""
        self.is_finished = False
        self._on_abort = on_abort
        self._batch = TokenBatch()
        self._arrived = asyncio.Event()

    def put(self, output: EngineCoreOutput) -> None:
        """Add what an engine produced; tokens that are here already are dropped."""
        assert not self.is_finished, f"{self.request.request_id} has ended and gets more"
        known = len(self.token_ids) - output.first_output_index
        assert known >= 0, (
            f"{self.request.request_id}: output {output.first_output_index} after {len(self.token_ids)}"
        )
        fresh = output.token_ids[known:]
        self.token_ids += fresh
        batch = self._batch
        batch.token_ids += fresh
        if output.logprobs is not None and fresh:
            batch.logprobs.append(output.logprobs)
        if output.prompt_logprobs is not None:
            batch.prompt_logprobs.append(output.prompt_logprobs)
        if output.finish_reason is not None:
            batch.finish_reason = output.finish_reason
            batch.stop_token_id = output.stop_token_id
            batch.error = output.error
            self.is_finished = True
        self._arrived.set()

    def fail(self, error: str, retry_after_seconds: int | None = None) -> None:
        """End the stream with an error of our own side."""
        if not self.is_finished:
            self.is_finished = True
            self._batch.finish_reason = FinishReason.ERROR
            self._batch.error = error
            self._batch.retry_after_seconds = retry_after_seconds
            self._arrived.set()

    async def next(self, timeout_seconds: float | None = None) -> TokenBatch | None:
        """What has arrived since the last call, waiting for at least something.

        None if nothing came within `timeout_seconds`. The batch with a `finish_reason` is the last.
        """
        if not self._arrived.is_set():
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._arrived.wait()
            except TimeoutError:
                return None
        self._arrived.clear()
        batch, self._batch = self._batch, TokenBatch()
        return batch

    def abort(self, reason: FinishReason = FinishReason.ABORT) -> None:
        """End the request now, in the engine too; STOP if a stop string was found.

        Harmless if it has ended already.
        """
        if not self.is_finished:
            self.is_finished = True
            self._on_abort(self, reason)
