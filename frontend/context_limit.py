"""How many tokens a request may generate: what it asked for, inside what model and engines hold."""

from dataclasses import dataclass

from cluster.errors import ContextLengthExceeded


@dataclass(frozen=True, slots=True)
class ContextLimit:
    """The longest prompt plus answer, and whose limit that is."""

    num_tokens: int
    words: str

    @classmethod
    def of(cls, max_model_len: int, max_request_tokens: int | None) -> "ContextLimit":
        """The smaller of the model's limit and the engines', where that is known."""
        if max_request_tokens is not None and max_request_tokens < max_model_len:
            return cls(
                max_request_tokens,
                f"The KV cache of this server holds at most {max_request_tokens} tokens of a request.",
            )
        return cls(max_model_len, f"This model's maximum context length is {max_model_len} tokens.")

    def check_prompt(self, num_prompt_tokens: int, prompt_name: str) -> None:
        """Raises ContextLengthExceeded in OpenAI's words if a prompt without an answer does not fit."""
        if num_prompt_tokens > self.num_tokens:
            raise ContextLengthExceeded(
                f"{self.words} However, you requested {num_prompt_tokens} tokens "
                f"({num_prompt_tokens} in your {prompt_name}; 0 for the completion). "
                f"Please reduce the length of the {prompt_name}.",
                prompt_name,
            )

    def check_text(self, least_tokens: int, prompt_name: str) -> None:
        """Raises ContextLengthExceeded if a text with so many tokens at least cannot fit.

        Tokenizing megabytes takes seconds, only to find the same.
        """
        if least_tokens > self.num_tokens:
            raise ContextLengthExceeded(
                f"{self.words} However, your {prompt_name} resulted in at least {least_tokens} tokens. "
                f"Please reduce the length of the {prompt_name}.",
                prompt_name,
            )

    def max_tokens(
        self, num_prompt_tokens: int, asked: int | None, default: int | None, prompt_name: str
    ) -> int:
        """Tokens that the request may generate; without a wish, `default` or all that fit.

        Raises ContextLengthExceeded in OpenAI's words if the prompt, or prompt and wish, do not fit.
        """
        room = self.num_tokens - num_prompt_tokens
        if room < 1:
            raise ContextLengthExceeded(
                f"{self.words} However, your {prompt_name} resulted in {num_prompt_tokens} tokens, "
                f"which leaves none for the completion. Please reduce the length of the {prompt_name}.",
                prompt_name,
            )
        if asked is None:
            return min(room, default or room)
        if asked > room:
            raise ContextLengthExceeded(
                f"{self.words} However, you requested {num_prompt_tokens + asked} tokens "
                f"({num_prompt_tokens} in the {prompt_name}, {asked} in the completion). "
                f"Please reduce the length of the {prompt_name} or completion.",
                prompt_name,
            )
        return asked
