"""Token ids to text, one token at a time, never splitting a character."""

import codecs
from typing import Protocol

from tokenizers.decoders import DecodeStream

from frontend.token_bytes import TokenBytes
from frontend.tokenizer import Tokenizer

NUM_CONTEXT_TOKENS = 6
"""Prompt tokens that decide how the first output token is written, e.g. whether a space leads it."""


class Detokenizer(Protocol):
    """Puts the text of one answer together."""

    def push(self, token_id: int) -> str:
        """The text that this token completes, perhaps none."""
        ...

    def flush(self) -> str:
        """What was held back at the end: U+FFFD for an unfinished character."""
        ...


class BytesDetokenizer:
    """For tokenizers whose texts are their tokens' bytes: constant work a token.

    All tokens' texts together are the decoded bytes of all tokens together.
    """

    def __init__(self, spelling: TokenBytes, hidden_token_ids: frozenset[int]) -> None:
        self._spelling = spelling
        self._hidden_token_ids = hidden_token_ids
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._is_within_character = False

    def push(self, token_id: int) -> str:
        """The characters that this token completes."""
        if token_id in self._hidden_token_ids:
            return ""
        if not self._is_within_character:
            text = self._spelling.whole_text(token_id)
            if text is not None:
                return text
        text = self._decoder.decode(self._spelling[token_id])
        self._is_within_character = bool(self._decoder.getstate()[0])
        return text

    def flush(self) -> str:
        """U+FFFD if the last character is incomplete."""
        return self._decoder.decode(b"", final=True)


class WindowDetokenizer:
    """For all other tokenizers: decodes a short window again with each token."""

    def __init__(
        self, tokenizer: Tokenizer, prompt_token_ids: list[int], skip_special_tokens: bool
    ) -> None:
        self._backend = tokenizer.backend
        context = prompt_token_ids[-NUM_CONTEXT_TOKENS:]
        self._stream = DecodeStream(context, skip_special_tokens)

    def push(self, token_id: int) -> str:
        """The text that this token adds to the window's."""
        return self._stream.step(self._backend, token_id) or ""

    def flush(self) -> str:
        """Nothing: these tokenizers do not split characters."""
        return ""


def make_detokenizer(
    tokenizer: Tokenizer, prompt_token_ids: list[int], skip_special_tokens: bool
) -> Detokenizer:
    """The detokenizer for an answer to this prompt."""
    if tokenizer.bytes_of_tokens is None:
        return WindowDetokenizer(tokenizer, prompt_token_ids, skip_special_tokens)
    hidden = tokenizer.special_token_ids if skip_special_tokens else frozenset[int]()
    return BytesDetokenizer(tokenizer.bytes_of_tokens, hidden)
