"""One answer on its way through its grammar."""

from collections.abc import Sequence

from llguidance import LLMatcher

from engine.structured.errors import GrammarFailed
from engine.structured.mask import GrammarMask


class GrammarMatcher:
    """Follows an output, which only ever gets longer; begins with whatever there is of it.

    Owned by one thread at a time.
    """

    def __init__(self, matcher: LLMatcher, vocab_size: int) -> None:
        self._matcher = matcher
        self._vocab_size = vocab_size
        self._num_consumed = 0

    def mask_after(self, output_token_ids: Sequence[int]) -> GrammarMask:
        """What may follow this output; after a complete text, nothing but the end of text.

        Raises GrammarFailed if the output does not follow the grammar, or a limit is reached.
        """
        self._matcher.consume_tokens(list(output_token_ids[self._num_consumed :]))
        self._num_consumed = len(output_token_ids)
        bits = self._matcher.compute_bitmask()
        if self._matcher.is_error():
            raise GrammarFailed(f"the grammar cannot be followed: {self._matcher.get_error()}")
        return GrammarMask(bits, self._vocab_size)
