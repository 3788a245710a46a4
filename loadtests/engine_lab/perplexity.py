"""How well the engine predicts a text: what smaller weights cost in quality."""

import gc
import math
from array import array
from collections.abc import Sequence
from pathlib import Path

import msgspec
from tokenizers import Tokenizer

from cluster.config import EngineConfig
from cluster.errors import ModelError
from engine.execution.loader import describe, load_config
from engine.execution.runner import ModelRunner as TorchModelRunner
from engine.request import Request
from engine.scheduling.output import ModelRunner, ScheduledRequest
from loadtests.engine_lab.decode import CHUNK_TOKENS, compute, make_request
from loadtests.engine_lab.engine_config import engine_config
from loadtests.engine_lab.options import EngineTarget

WINDOW_TOKENS = 1024


class PerplexityReport(msgspec.Struct, frozen=True):
    """The same text, with float32 weights and with those that were asked for."""

    model: str
    quantization: str
    tokens: int
    """How many were predicted."""
    float32: float
    chosen: float

    @property
    def growth(self) -> float:
        """By which share the perplexity is higher than with float32 weights."""
        return self.chosen / self.float32 - 1


def measure_perplexity(target: EngineTarget, text: str) -> PerplexityReport:
    """Of this text, in windows that know nothing of each other.

    Raises ModelError for a folder without a tokenizer, or a text of less than two tokens.
    """
    token_ids = _tokenize(target.model, text)
    info = describe(load_config(target.model), target.model)
    length = min(WINDOW_TOKENS, info.max_position_embeddings)
    windows = split_windows(token_ids, length)
    if not windows:
        raise ModelError("the text is shorter than two tokens")
    exact = target._replace(dtype="float32", quantization="none")
    return PerplexityReport(
        model=target.model.name,
        quantization=target.quantization,
        tokens=sum(len(window) - 1 for window in windows),
        float32=_measure(exact, windows, length),
        chosen=_measure(target, windows, length),
    )


def perplexity_text(report: PerplexityReport) -> str:
    """In one line."""
    return (
        f"{report.model}: perplexity {report.float32:.4f} with float32 weights, "
        f"{report.chosen:.4f} with quantization {report.quantization}: {report.growth:+.3%} "
        f"({report.tokens} tokens)"
    )


def split_windows(token_ids: Sequence[int], length: int) -> list[Sequence[int]]:
    """Pieces of this length; a last one of a single token has nothing to be predicted, and is left out."""
    windows = [token_ids[start : start + length] for start in range(0, len(token_ids), length)]
    return [window for window in windows if len(window) > 1]


def perplexity(logprobs: Sequence[float]) -> float:
    """e to the mean surprise, of the log probabilities of the tokens that came."""
    return math.exp(-math.fsum(logprobs) / len(logprobs))


def window_logprobs(
    runner: ModelRunner, token_ids: Sequence[int], table: list[int]
) -> Sequence[float]:
    """The log probability of each token after the first, computed in chunks."""
    request = make_request("perplexity", token_ids, prompt_logprobs=0)
    logprobs = array("f")
    for first in range(0, len(token_ids), CHUNK_TOKENS):
        logprobs.frombytes(_chunk_logprobs(runner, request, first, table))
    return logprobs


def _chunk_logprobs(runner: ModelRunner, request: Request, first: int, table: list[int]) -> bytes:
    count = min(CHUNK_TOKENS, request.num_tokens - first)
    reaches_end = first + count == request.num_tokens
    (result,) = compute(runner, [ScheduledRequest(request, first, count, table, reaches_end)])
    # The last token of all is followed by none, so a chunk that is nothing else has no logprobs.
    return b"" if result.prompt_logprobs is None else bytes(result.prompt_logprobs.logprobs.data)


def _measure(target: EngineTarget, windows: Sequence[Sequence[int]], length: int) -> float:
    num_blocks = -(-length // EngineConfig().block_size)
    runner = TorchModelRunner(engine_config(target, length, num_blocks + 2))
    table = list(range(num_blocks))
    logprobs = [logprob for window in windows for logprob in window_logprobs(runner, window, table)]
    del runner
    gc.collect()  # before the next one is loaded
    return perplexity(logprobs)


def _tokenize(model: Path, text: str) -> list[int]:
    path = model / "tokenizer.json"
    if not path.is_file():
        raise ModelError(f"--model: {model} has no tokenizer.json")
    token_ids: list[int] = Tokenizer.from_file(str(path)).encode(text, add_special_tokens=False).ids
    return token_ids
