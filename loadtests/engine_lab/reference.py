"""transformers on the same folder, in a process of its own: `python -m loadtests.engine_lab.reference`.

Reads one task a line from standard input, and answers each with a line of seconds.
"""

import argparse
import contextlib
import inspect
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import torch
import transformers

from cluster.telemetry.process import die_with_parent
from loadtests.engine_lab.options import WARM_UP_STEPS
from loadtests.engine_lab.reference_task import DecodeTask, PrefillTask, Task


class ReferenceModel:
    """A model as `from_pretrained` gives it. Every number of seconds includes the token's choice."""

    def __init__(self, directory: Path, dtype: str, device: torch.device) -> None:
        self._model: Any = (
            transformers.AutoModelForCausalLM.from_pretrained(
                directory,
                dtype=dtype if dtype == "auto" else getattr(torch, dtype),
                local_files_only=True,
            )
            .eval()
            .to(device)
        )
        self._device = device

    @torch.inference_mode()
    def measure(self, task: Task) -> list[float]:
        """Seconds a step of each repeat."""
        match task:
            case DecodeTask():
                return self._decode(task)
            case PrefillTask():
                return self._prefill(task)

    def _decode(self, task: DecodeTask) -> list[float]:
        """One call of `generate`, by the clock at each of its tokens: so its prefill does not count."""
        token_ids = self._random_tokens(task.batch, task.context)
        token_times: list[float] = []
        num_tokens = 1 + WARM_UP_STEPS + task.repeats * task.steps
        self._model.generate(
            token_ids,
            attention_mask=torch.ones_like(token_ids),
            min_new_tokens=num_tokens,
            max_new_tokens=num_tokens,
            do_sample=False,
            pad_token_id=0,
            stopping_criteria=transformers.StoppingCriteriaList([_clock(token_times)]),
        )
        return series_seconds(token_times[WARM_UP_STEPS:], task.steps)

    def _prefill(self, task: PrefillTask) -> list[float]:
        token_ids = self._random_tokens(1, task.tokens)
        self._forward(token_ids)
        return [self._forward(token_ids) for _ in range(task.repeats)]

    def _forward(self, token_ids: torch.Tensor) -> float:
        # As `generate` does it: logits of the last token alone.
        names = inspect.signature(self._model.forward).parameters
        last_only = {"logits_to_keep": 1} if "logits_to_keep" in names else {}
        started_at = time.perf_counter()
        output = self._model(input_ids=token_ids, use_cache=True, **last_only)
        output.logits[0, -1].argmax().item()
        return time.perf_counter() - started_at

    def _random_tokens(self, batch: int, length: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(0)
        vocab_size = self._model.config.vocab_size
        return torch.randint(vocab_size, (batch, length), generator=generator).to(self._device)


def _clock(token_times: list[float]) -> Callable[..., torch.Tensor]:
    """A stopping criterion that never stops, and notes the time."""

    def note(token_ids: torch.Tensor, _scores: object, **_: object) -> torch.Tensor:
        if token_ids.device.type == "cuda":
            torch.cuda.synchronize(token_ids.device)
        token_times.append(time.perf_counter())
        return torch.zeros(len(token_ids), dtype=torch.bool, device=token_ids.device)

    return note


def series_seconds(token_times: Sequence[float], steps: int) -> list[float]:
    """Seconds a step of each full series of `steps` steps, from the times of all tokens."""
    ends = token_times[::steps]
    return [(end - start) / steps for start, end in pairwise(ends)]


def answer_tasks(model: ReferenceModel, lines: Iterable[bytes], out: BinaryIO) -> None:
    """Answer until there are no more; an empty answer first says that the model is loaded."""
    decoder = msgspec.json.Decoder(Task)
    out.write(b"[]\n")
    out.flush()
    for line in lines:
        out.write(msgspec.json.encode(model.measure(decoder.decode(line))) + b"\n")
        out.flush()


def main() -> int:
    """Serve tasks until standard input ends."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.engine_lab.reference")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--dtype", required=True)
    arguments = parser.parse_args()
    die_with_parent()
    torch.set_num_threads(arguments.threads)
    transformers.utils.logging.disable_progress_bar()
    out = sys.stdout.buffer
    with contextlib.redirect_stdout(sys.stderr):  # whatever else is printed is no answer
        model = ReferenceModel(arguments.model, arguments.dtype, torch.device(arguments.device))
        answer_tasks(model, sys.stdin.buffer, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
