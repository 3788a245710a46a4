"""Steps through a model runner as a scheduler would ask for them, and how long they take."""

import random
import time
from collections.abc import Sequence

from cluster.errors import ModelError
from cluster.wire.sampling import SamplingParams
from engine.request import Request
from engine.scheduling.output import ModelRunner, RunResult, ScheduledRequest, SchedulerOutput
from loadtests.engine_lab.options import WARM_UP_STEPS

CHUNK_TOKENS = 512


def make_request(
    name: str, token_ids: Sequence[int], prompt_logprobs: int | None = None
) -> Request:
    """A greedy request whose prompt is these tokens."""
    return Request(
        request_id=name, frontend_index=0, attempt=0, token_ids=list(token_ids),
        num_prompt_tokens=len(token_ids), block_hashes=[],
        sampling=SamplingParams(temperature=0.0, prompt_logprobs=prompt_logprobs),
    )  # fmt: skip


def random_token_ids(count: int, vocab_size: int, seed: int) -> list[int]:
    """The same ones for the same arguments."""
    source = random.Random(seed)
    return [source.randrange(vocab_size) for _ in range(count)]


def compute(runner: ModelRunner, runs: list[ScheduledRequest]) -> list[RunResult]:
    """One step. Raises ModelError if the model fails at a run."""
    results = runner.submit(SchedulerOutput(runs)).result()
    for result in results:
        if result.error:
            raise ModelError(result.error)
    return results


class DecodeLoad:
    """A batch of sequences whose context is computed, all but the last token of each."""

    def __init__(
        self, runner: ModelRunner, requests: Sequence[Request], tables: Sequence[list[int]]
    ) -> None:
        self._runner = runner
        self.requests = requests
        self._tables = tables

    def measure(self, repeats: int, steps: int) -> list[float]:
        """Seconds a step, of each repeat of so many steps; the sequences grow by all of them."""
        if not repeats:
            return []
        for _ in range(WARM_UP_STEPS):
            self.step()
        return [self._series(steps) / steps for _ in range(repeats)]

    def step(self) -> None:
        """Every sequence gets its next token."""
        runs = [
            ScheduledRequest(request, request.num_tokens - 1, 1, table)
            for request, table in zip(self.requests, self._tables, strict=True)
        ]
        for request, result in zip(self.requests, compute(self._runner, runs), strict=True):
            assert result.token_id is not None, f"{request.request_id} got no token"
            request.token_ids.append(result.token_id)

    def _series(self, steps: int) -> float:
        started_at = time.perf_counter()
        for _ in range(steps):
            self.step()
        return time.perf_counter() - started_at


class Contexts:
    """Random sequences whose KV lies scattered over a runner's cache, as far as it was wanted."""

    def __init__(
        self, runner: ModelRunner, num_blocks: int, block_size: int, vocab_size: int,
        count: int, length: int,
    ) -> None:  # fmt: skip
        self._runner = runner
        per_sequence = -(-length // block_size)
        blocks = random.Random(0).sample(range(num_blocks), count * per_sequence)
        self._tables = [
            blocks[index * per_sequence : (index + 1) * per_sequence] for index in range(count)
        ]
        self._token_ids = [random_token_ids(length, vocab_size, seed) for seed in range(count)]
        self._computed = [0] * count

    def decode_load(self, batch: int, context: int) -> DecodeLoad:
        """The first `batch` sequences, cut to `context` tokens. Ends every earlier load."""
        requests = [
            make_request(f"decode-{index}", self._token_ids[index][:context])
            for index in range(batch)
        ]
        for index, request in enumerate(requests):
            self._fill(index, request, context - 1)
        return DecodeLoad(self._runner, requests, self._tables[:batch])

    def _fill(self, index: int, request: Request, num_tokens: int) -> None:
        for first in range(self._computed[index], num_tokens, CHUNK_TOKENS):
            count = min(CHUNK_TOKENS, num_tokens - first)
            table = self._tables[index]
            compute(
                self._runner, [ScheduledRequest(request, first, count, table, reaches_end=False)]
            )
        # What the steps of the load write behind this is not what belongs there.
        self._computed[index] = num_tokens


class PrefillLoad:
    """One prompt of random tokens, computed as one chunk again and again."""

    def __init__(
        self, runner: ModelRunner, block_size: int, vocab_size: int, num_tokens: int
    ) -> None:
        self._runner = runner
        request = make_request("prefill", random_token_ids(num_tokens, vocab_size, seed=0))
        table = list(range(-(-num_tokens // block_size)))
        self._run = ScheduledRequest(request, 0, num_tokens, table)

    def measure(self, repeats: int) -> list[float]:
        """Seconds of each repeat, its first token drawn."""
        if not repeats:
            return []
        compute(self._runner, [self._run])
        return [self._seconds() for _ in range(repeats)]

    def _seconds(self) -> float:
        started_at = time.perf_counter()
        compute(self._runner, [self._run])
        return time.perf_counter() - started_at
