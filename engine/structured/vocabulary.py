"""The model's tokens as bytes, in the form in which grammars are matched against them."""

import json
from collections.abc import Sequence
from pathlib import Path

from llguidance import LLTokenizer

from engine.structured.errors import GrammarFailed


def load_vocabulary(directory: Path, vocab_size: int, eos_token_ids: Sequence[int]) -> LLTokenizer:
    """The vocabulary of the folder's tokenizer.json, padded to what the model has.

    Takes half a second and 60 MB for 49,000 tokens, holding Python's lock. Raises GrammarFailed if
    there is no file, or its tokens are not spelled in bytes.
    """
    try:
        text = (directory / "tokenizer.json").read_text(encoding="utf-8")
        eos = list(eos_token_ids) or _own_eos(directory, text)
        return LLTokenizer(text, n_vocab=vocab_size, eos_token=eos)
    except (OSError, ValueError) as error:
        raise GrammarFailed(f"the tokenizer cannot be used with grammars: {error}") from error


def _own_eos(directory: Path, tokenizer: str) -> list[int]:
    """The end-of-text token of tokenizer_config.json, for a model that names none."""
    settings = json.loads((directory / "tokenizer_config.json").read_text(encoding="utf-8"))
    token = settings.get("eos_token")
    content = token.get("content") if isinstance(token, dict) else token
    added = json.loads(tokenizer).get("added_tokens", [])
    found = [entry["id"] for entry in added if entry["content"] == content]
    if not found:
        raise GrammarFailed("the model has no end-of-text token")
    return found
