"""An engine client whose engine answers from a script: real streams, no sockets, no model."""

import asyncio
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from cluster.wire.messages import Blob, EngineCoreOutput, TokenLogprobs, UtilityResult
from cluster.wire.sampling import FinishReason
from frontend.cluster_view import EngineCounts
from frontend.courier import Courier
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream, Told

Script = Callable[[GenerationRequest], list[int]]
"""The tokens that an answer would have, were it never stopped."""


@dataclass
class ScriptedEngine:
    """Speaks `EngineClient`: every request gets its script's tokens, `tokens_per_batch` at once.

    Like an engine it obeys stop tokens, `max_tokens` and what was asked about logprobs; and what pools
    gets its `scripted_vector` instead of tokens.
    """

    script: Script
    tokens_per_batch: int = 1
    num_ready_engines: int = 1
    num_engines: int = 1
    is_draining: bool = False
    are_all_engines_dead: bool = False
    kv_capacity_tokens: int | None = None
    is_resumable: bool = True
    submit_error: Exception | None = None
    room_error: Exception | None = None
    """What is raised before a prompt is tokenized."""
    error: str = ""
    """The engine fails with these words, after `tokens_before_hold` tokens."""
    tokens_before_hold: int | None = None
    """After as many tokens each answer waits until `release` is called."""
    submitted: list[GenerationRequest] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    """Ids of those that were ended before their script was."""
    told: list[Told] = field(default_factory=list)
    """What clients were told, all together."""

    def __post_init__(self) -> None:
        self._courier = Courier()
        self._released = asyncio.Event()
        self._holding = asyncio.Event()
        self._aborted = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def check_room(self, sketch: GenerationRequest) -> None:
        """Refuses if the script says so."""
        if self.room_error is not None:
            raise self.room_error

    def submit(self, request: GenerationRequest) -> RequestStream:
        """Begin to answer."""
        if self.submit_error is not None:
            raise self.submit_error
        stream = RequestStream(
            request, self._on_abort, self.is_resumable, self.told.append, self._courier.call
        )
        stream.engine_rank = 0
        self.submitted.append(request)
        self._tasks[request.request_id] = asyncio.create_task(self._answer(stream))
        return stream

    @property
    def engine_counts(self) -> EngineCounts:
        """As many as the script says."""
        return EngineCounts(self.num_engines, ready=self.num_ready_engines)

    def max_request_tokens(self) -> int | None:
        """What the scripted KV cache holds."""
        return self.kv_capacity_tokens

    async def call_engines(self, method: str) -> dict[int, UtilityResult]:
        """Refuses while an answer is under way, as an engine's cache in use does."""
        return {0: UtilityResult(0, 1, 1, result="false" if self._tasks else "true")}

    def describe(self) -> dict[str, object]:
        """One engine."""
        return {"engines": [{"rank": 0, "state": "READY"}]}

    def decisions(self, most: int) -> list[dict[str, object]]:
        """Each request went to the only engine."""
        return [
            {"request_id": request.request_id, "chosen": 0, "engines": []}
            for request in islice(reversed(self.submitted), most)
        ]

    @property
    def finish_reasons(self) -> list[FinishReason]:
        """Why requests ended, as clients were told."""
        return [told.finish_reason for told in self.told if told.finish_reason is not None]

    @property
    def num_told_tokens(self) -> int:
        """How many tokens clients were told of."""
        return sum(sum(told.tokens_by_rank.values()) for told in self.told)

    def release(self) -> None:
        """Let the answers that wait go on."""
        self._released.set()

    async def wait_until_holding(self) -> None:
        """Return when an answer has come to its `tokens_before_hold`."""
        await self._holding.wait()

    async def wait_until_aborted(self) -> None:
        """Return when some request was aborted."""
        await self._aborted.wait()

    async def close(self) -> None:
        """End all answers."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _on_abort(self, stream: RequestStream) -> None:
        self.aborted.append(stream.request.request_id)
        self._aborted.set()
        self._tasks[stream.request.request_id].cancel()

    async def _answer(self, stream: RequestStream) -> None:
        sampling = stream.request.sampling
        script = self.script(stream.request)[: sampling.max_tokens]
        sent = 0
        while not stream.is_finished:
            if self.tokens_before_hold is not None and sent >= self.tokens_before_hold:
                self._holding.set()
                if self.error:
                    stream.fail(self.error)
                    return
                await self._released.wait()
            # An engine's tokens arrive between the turns of the event loop.
            await asyncio.sleep(0)
            if sampling.pooling is not None:
                stream.put(vector_output(stream.request))
                return
            sent += self._put_batch(stream, script, sent)

    def _put_batch(self, stream: RequestStream, script: list[int], first: int) -> int:
        sampling = stream.request.sampling
        token_ids: list[int] = []
        finish_reason: FinishReason | None = None
        stop_token_id: int | None = None
        for token_id in script[first : first + self.tokens_per_batch]:
            token_ids.append(token_id)
            num_tokens = first + len(token_ids)
            if token_id in sampling.stop_token_ids and num_tokens > sampling.min_tokens:
                finish_reason, stop_token_id = FinishReason.STOP, token_id
                break
        if finish_reason is None and first + len(token_ids) >= len(script):
            finish_reason = FinishReason.LENGTH
        prompt = stream.request.prompt_token_ids
        stream.put(
            EngineCoreOutput(
                request_id=stream.request.request_id,
                attempt=0,
                first_output_index=first,
                token_ids=token_ids,
                finish_reason=finish_reason,
                stop_token_id=stop_token_id,
                logprobs=scripted_logprobs(token_ids, sampling.logprobs),
                prompt_logprobs=(
                    scripted_logprobs(prompt[1:], sampling.prompt_logprobs) if first == 0 else None
                ),
            )
        )
        return len(token_ids)


def scripted_logprobs(token_ids: list[int], num_alternatives: int | None) -> TokenLogprobs | None:
    """Each token with probability -0.5, and tokens 10, 11, … as its alternatives, the last at -∞."""
    if num_alternatives is None:
        return None
    width = 1 + num_alternatives
    ids, values = array("i"), array("f")
    for token_id in token_ids:
        ids.extend([token_id, *range(10, 10 + num_alternatives)])
        values.append(-0.5)
        values.extend(-1.0 - rank for rank in range(num_alternatives - 1))
        values.extend([float("-inf")] if num_alternatives else [])
    return TokenLogprobs(width, Blob(ids.tobytes()), Blob(values.tobytes()))


def scripted_vector(token_ids: list[int]) -> list[float]:
    """What stands for the vector of these tokens; exact as float32."""
    return [float(len(token_ids)), float(sum(token_ids)), 0.5]


def vector_output(request: GenerationRequest) -> EngineCoreOutput:
    """All that an engine answers to a request that pools."""
    vector = array("f", scripted_vector(request.prompt_token_ids))
    return EngineCoreOutput(
        request.request_id, 0, 0, [], FinishReason.STOP, vector=Blob(vector.tobytes())
    )
