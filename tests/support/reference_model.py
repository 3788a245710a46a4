"""What transformers itself says: greedy answers, and how near a tie a difference is."""

from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers

transformers.utils.logging.disable_progress_bar()  # it leaves a thread behind


class Difference(NamedTuple):
    """Where an answer first leaves the reference."""

    position: int
    ours: int
    theirs: int
    logit_gap: float
    """By how much the reference prefers its token to ours: what lies between its two best, unless
    ours is not even the second."""


class ReferenceModel:
    """The model in float32, through `generate`, one prompt at a time."""

    def __init__(self, directory: Path) -> None:
        self._model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            directory, dtype=torch.float32
        ).eval()
        self.stored_dtype: torch.dtype = transformers.AutoConfig.from_pretrained(directory).dtype
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(directory)

    def generate(self, prompt: list[int], max_tokens: int) -> list[int]:
        """Greedy answer of exactly `max_tokens` tokens, end-of-text tokens taken as any other."""
        input_ids = torch.tensor([prompt])
        answer = self._model.generate(
            input_ids,
            attention_mask=torch.ones_like(input_ids),
            max_new_tokens=max_tokens,
            min_new_tokens=None,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        return [int(token_id) for token_id in answer[0, len(prompt) :]]

    def hidden_states(self, token_ids: list[int]) -> torch.Tensor:
        """The states after the last norm, (tokens, hidden)."""
        with torch.inference_mode():
            output = self._model(torch.tensor([token_ids]), output_hidden_states=True)
        states: torch.Tensor = output.hidden_states[-1][0]
        return states

    def logits(self, prompt: list[int], answer: list[int]) -> torch.Tensor:
        """What each token of an answer is chosen by, (tokens, vocabulary)."""
        with torch.inference_mode():
            logits: torch.Tensor = self._model(torch.tensor([prompt + answer[:-1]])).logits[0]
        return logits[len(prompt) - 1 :]


def difference(ours: list[int], theirs: list[int], logits: torch.Tensor) -> Difference | None:
    """The first difference of two answers, by the logits of theirs; None if they are equal."""
    pairs = zip(ours, theirs, strict=True)
    position = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if position is None:
        return None
    gap = float(logits[position, theirs[position]] - logits[position, ours[position]])
    return Difference(position, ours[position], theirs[position], gap)
