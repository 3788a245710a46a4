"""How many of an answer's tokens are reasoning."""

from frontend.detokenizer import make_detokenizer
from frontend.reasoning.reasoning_parser import ReasoningParser
from frontend.tokenizer import Tokenizer


class ReasoningTokens:
    """Counts up to the end of the reasoning, marks included, token by token: batches have no say."""

    def __init__(
        self, tokenizer: Tokenizer, prompt_token_ids: list[int], parser: ReasoningParser
    ) -> None:
        self._detokenizer = make_detokenizer(tokenizer, prompt_token_ids, skip_special_tokens=False)
        self._parser = parser
        self._num_read = 0

    @property
    def num_tokens(self) -> int:
        """So far; none in an answer without reasoning."""
        return self._num_read if self._parser.has_reasoning else 0

    def push(self, token_ids: list[int]) -> None:
        """Add what the answer goes on with."""
        for token_id in token_ids:
            if self._parser.is_over:
                return
            self._parser.feed(self._detokenizer.push(token_id))
            self._num_read += 1
