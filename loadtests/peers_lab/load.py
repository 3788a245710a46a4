"""What is asked of every server in a round."""

from typing import NamedTuple

from loadtests.workload import Ask, random_token_prompts

WARM_UP_SEED = 1 << 20
WARM_UP_OUTPUT_TOKENS = 16


class PeerLoad(NamedTuple):
    """Completions of random token ids, of exact lengths; equal rounds ask equal things."""

    requests: int
    input_tokens: int
    output_tokens: int
    concurrency: int
    vocabulary_size: int
    seed: int

    def asks(self, model: str, number: int) -> list[Ask]:
        """The requests of a round: the same for all servers, and no prompt of another round."""
        return self._prompts(model, self.requests, self.output_tokens, self.seed + number)

    def warm_up(self, model: str, number: int) -> list[Ask]:
        """One short answer for each place, to prompts that no round asks."""
        output_tokens = min(self.output_tokens, WARM_UP_OUTPUT_TOKENS)
        seed = WARM_UP_SEED + self.seed + number
        return self._prompts(model, self.concurrency, output_tokens, seed)

    @property
    def in_words(self) -> str:
        """One line for people."""
        return (
            f"{self.requests} requests, {self.concurrency} at once, "
            f"{self.input_tokens} tokens in and {self.output_tokens} out"
        )

    def _prompts(self, model: str, requests: int, output_tokens: int, seed: int) -> list[Ask]:
        return random_token_prompts(
            model,
            requests,
            input_tokens=self.input_tokens,
            output_tokens=output_tokens,
            prefix_share=0.0,
            vocabulary_size=self.vocabulary_size,
            seed=seed,
        )
