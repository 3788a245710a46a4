"""The `prompt` field of a completion: a text, token ids, or a list of either."""

from dataclasses import dataclass
from typing import Any, NoReturn

from cluster.errors import InvalidRequest
from frontend.tokenizer import Tokenizer

MAX_PROMPTS = 1024


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt, tokenized."""

    text: str | None
    """As the client or the template wrote it; None if the tokens alone are known."""
    token_ids: list[int]


def read_prompts(
    value: str | list[Any], tokenizer: Tokenizer, add_special_tokens: bool
) -> list[Prompt]:
    """The prompts, one or more. Token ids are taken as they are, nothing is added to them.

    Raises InvalidRequest if the field is none of the four forms, or a prompt has no tokens.
    """
    if isinstance(value, str) or _is_token_ids(value):
        value = [value]
    if not value:
        _refuse("is empty")
    if len(value) > MAX_PROMPTS:
        _refuse(f"may hold at most {MAX_PROMPTS} prompts, not {len(value)}")
    prompts: list[Prompt] = []
    for item in value:
        if isinstance(item, str):
            prompts.append(Prompt(item, tokenizer.encode(item, add_special_tokens)))
        elif _is_token_ids(item):
            prompts.append(Prompt(None, item))
        else:
            _refuse("must be a text, a list of token ids, or a list of either")
        if not prompts[-1].token_ids:
            _refuse("must have at least one token")
    return prompts


def _is_token_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(item) is int for item in value)


def _refuse(words: str) -> NoReturn:
    raise InvalidRequest(f"prompt {words}", "prompt")
