"""Running requests through a model runner by hand, as a scheduler would."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from cluster.config import ClusterConfig, EngineConfig, ModelConfig
from cluster.wire.sampling import SamplingParams
from engine.execution.runner import ModelRunner
from engine.request import Request
from engine.scheduling.output import RunResult, ScheduledRequest, SchedulerOutput

BLOCKS_PER_REQUEST = 16


def make_runner(
    directory: Path,
    backend: Literal["auto", "torch", "cpu_native"] = "cpu_native",
    max_model_len: int | None = None,
    quantization: Literal["none", "int8"] = "none",
    **engine: Any,
) -> ModelRunner:
    """A runner on the CPU with one thread and a small cache, unless told otherwise."""
    settings: dict[str, Any] = {
        "threads_per_engine": 1,
        "kv_cache_memory": "8MiB",
        "kv_cache_dtype": "float32",
    }
    return ModelRunner(
        ClusterConfig(
            model=ModelConfig(
                model=str(directory), max_model_len=max_model_len, quantization=quantization
            ),
            engine=EngineConfig(device="cpu", attention_backend=backend, **(settings | engine)),
        )
    )


def make_request(
    token_ids: Sequence[int], num_prompt_tokens: int | None = None, **sampling: Any
) -> Request:
    """A request with these tokens, all of them prompt by default; greedy by default."""
    return Request(
        request_id="r",
        frontend_index=0,
        attempt=0,
        token_ids=list(token_ids),
        num_prompt_tokens=len(token_ids) if num_prompt_tokens is None else num_prompt_tokens,
        sampling=SamplingParams(**({"temperature": 0.0} | sampling)),
        block_hashes=[],
    )


def whole_run(request: Request) -> ScheduledRequest:
    """All that there is of a request, where nothing is computed."""
    return ScheduledRequest(request, 0, request.num_tokens, [])


class Slot:
    """A place for one request at a time: a block table of its own, scattered over the cache."""

    def __init__(self, runner: ModelRunner, index: int) -> None:
        stride = runner.num_blocks // BLOCKS_PER_REQUEST
        self.block_table = [
            index + stride * position for position in reversed(range(BLOCKS_PER_REQUEST))
        ]

    def run(self, request: Request, first: int, end: int) -> ScheduledRequest:
        """The tokens first … end - 1 of `request`, to be computed in this slot."""
        return ScheduledRequest(
            request, first, end - first, self.block_table, end == request.num_tokens
        )


def generate(
    runner: ModelRunner, request: Request, num_tokens: int, chunk: int = 10_000, slot: int = 0
) -> list[int]:
    """Compute `request` alone, its context in chunks, and give it `num_tokens` more tokens."""
    place, computed = Slot(runner, slot), 0
    for _ in range(num_tokens):
        result = RunResult()
        while computed < request.num_tokens:
            end = min(computed + chunk, request.num_tokens)
            (result,) = runner.execute(SchedulerOutput([place.run(request, computed, end)]))
            computed = end
        assert result.token_id is not None, result.error
        request.token_ids.append(result.token_id)
    return request.output_token_ids
