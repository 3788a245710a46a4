"""Fields that would change the answer and are not supported: refused, never ignored."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from cluster.errors import InvalidRequest
from frontend.openai.schemas import ChatBody, CompletionBody, GenerationBody

AsksNothing = Callable[[Any], bool]


def _never(_: Any) -> bool:
    return False


def _is_falsy(value: Any) -> bool:
    return not value


def _is_text_only(value: Any) -> bool:
    return bool(value == ["text"])


GENERATION_FIELDS: dict[str, AsksNothing] = {
    "structural_tag": _never,
    "use_beam_search": _is_falsy,
    "logits_processors": _is_falsy,
    "thinking_token_budget": _never,
    "repetition_detection": _never,
    "kv_transfer_params": _never,
}
COMPLETION_FIELDS: dict[str, AsksNothing] = {"suffix": _is_falsy, "prompt_embeds": _never}
CHAT_FIELDS: dict[str, AsksNothing] = {
    "modalities": _is_text_only,
    "audio": _never,
    "web_search_options": _never,
    "echo": _is_falsy,
}


def refuse_unsupported(body: GenerationBody) -> None:
    """Raises InvalidRequest naming the first field that asks for something not supported."""
    refuse_fields(body, GENERATION_FIELDS)
    if isinstance(body, CompletionBody):
        refuse_fields(body, COMPLETION_FIELDS)
        if body.best_of is not None and body.best_of != (body.n or 1):
            raise InvalidRequest("best_of is not supported unless it equals n", "best_of")
    if isinstance(body, ChatBody):
        refuse_fields(body, CHAT_FIELDS)


def refuse_fields(body: msgspec.Struct, fields: Mapping[str, AsksNothing]) -> None:
    """Raises InvalidRequest naming the first of these fields that asks for something."""
    for name, asks_nothing in fields.items():
        value = getattr(body, name)
        if value is not None and not asks_nothing(value):
            raise InvalidRequest(f"{name} is not supported by this server", name)
