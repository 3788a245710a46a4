"""Prompts as a body has them: a text, token ids, or a list of either."""

from dataclasses import dataclass
from typing import NoReturn

from cluster.errors import InvalidRequest
from frontend.chat_template import Message
from frontend.context_limit import ContextLimit
from frontend.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt, tokenized."""

    text: str | None
    """As the client or the template wrote it; None if the tokens alone are known."""
    token_ids: list[int]


def read_prompts(
    value: str | list[str | int | list[int]],
    tokenizer: Tokenizer,
    add_special_tokens: bool,
    field: str = "prompt",
    limit: ContextLimit | None = None,
) -> list[Prompt]:
    """The prompts in this field, one or more. Token ids are taken as they are, nothing is added to them.

    Raises InvalidRequest if the list is of both token ids and prompts, or a prompt has no tokens,
    and ContextLengthExceeded if a text is so long that nobody need count its tokens.
    """
    if isinstance(value, str):
        value = [value]
    elif isinstance(value[0], int):
        value = [_token_ids(value, field)]
    prompts: list[Prompt] = []
    for item in value:
        if isinstance(item, str):
            if limit is not None:
                limit.check_text(tokenizer.least_tokens(item), field)
            prompts.append(Prompt(item, tokenizer.encode(item, add_special_tokens)))
        elif isinstance(item, list):
            prompts.append(Prompt(None, item))
        else:
            _refuse_mixed(field)
        if not prompts[-1].token_ids:
            raise InvalidRequest(f"{field} must have at least one token", field)
    return prompts


def check_users_texts(messages: list[Message], tokenizer: Tokenizer, limit: ContextLimit) -> None:
    """Raises ContextLengthExceeded if what a user says is so long that nobody need render it.

    A template copies a text for each thing that it puts around it, and all streams wait meanwhile.
    What assistants and tools say it may leave out.
    """
    for message in messages:
        if message["role"] == "user":
            limit.check_text(tokenizer.least_tokens(message["content"].strip()), "messages")


def truncated(prompt: Prompt, num_tokens: int, max_model_len: int) -> Prompt:
    """The last tokens of the prompt, as many as `truncate_prompt_tokens` says.

    Raises InvalidRequest if that is no number of tokens that the model could take.
    """
    if not 1 <= num_tokens <= max_model_len:
        raise InvalidRequest(
            f"truncate_prompt_tokens must be -1, or between 1 and {max_model_len}",
            "truncate_prompt_tokens",
        )
    if num_tokens >= len(prompt.token_ids):
        return prompt
    return Prompt(None, prompt.token_ids[-num_tokens:])


def _token_ids(value: list[str | int | list[int]], field: str) -> list[int]:
    token_ids = [item for item in value if isinstance(item, int)]
    if len(token_ids) < len(value):
        _refuse_mixed(field)
    return token_ids


def _refuse_mixed(field: str) -> NoReturn:
    raise InvalidRequest(f"{field} must be a text, a list of token ids, or a list of either", field)
