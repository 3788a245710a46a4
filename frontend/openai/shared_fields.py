"""The fields that mean the same in chats, completions and responses: OpenAI's, and vLLM's extras."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from frontend.openai.limits import (
    CacheSalt,
    Count,
    LogitBias,
    MinP,
    Penalty,
    Priority,
    Rank,
    RepetitionPenalty,
    Seed,
    SomeTokenIds,
    Temperature,
    TokenIds,
    TopK,
    TopP,
    Word,
    Words,
)


class StructuredOutputs(msgspec.Struct, kw_only=True):
    """The form of the answer, in vLLM's words: exactly one of the first five."""

    json: str | dict[str, Any] | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None

    # Refused unless they ask for nothing.
    structural_tag: Any = None
    whitespace_pattern: Any = None
    disable_any_whitespace: Any = None
    disable_additional_properties: Any = None


class SharedFields(msgspec.Struct, kw_only=True):
    """What is said of the model, the sampling, the text and the scheduling of a request."""

    model: str | None = None
    stream: bool | None = None
    """Whether the answer comes as server-sent events, chunk by chunk."""

    temperature: Temperature | None = None
    """0 is greedy. Without one: what the model's authors recommend, else 1."""
    top_p: TopP | None = None
    top_k: TopK | None = None
    """0 and -1 are all tokens."""
    min_p: MinP | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: RepetitionPenalty | None = None
    seed: Seed | None = None
    """The same seed, body and model give the same answer."""
    logit_bias: LogitBias | None = None
    """From token ids to what is added to their logits."""
    allowed_token_ids: TokenIds | None = None
    """The only tokens that may be generated."""
    bad_words: Words | None = None
    """Texts that are never generated."""

    min_tokens: Count | None = None
    """No end of text and no stop string counts before so many tokens."""
    stop: Word | list[Word] | None = None
    """Texts that end the answer."""
    stop_token_ids: SomeTokenIds | None = None
    ignore_eos: bool | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None

    truncate_prompt_tokens: Annotated[int, Meta(ge=-1)] | None = None
    """How many tokens of the prompt's end are kept; -1: what fits."""
    add_special_tokens: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    priority: Priority | None = None
    """Lower goes first."""
    cache_salt: CacheSalt | None = None
    """Cached prefixes are shared only among requests with the same salt."""
    data_parallel_rank: Rank | None = None
    """The engine that must answer."""

    structured_outputs: StructuredOutputs | None = None
    guided_json: str | dict[str, Any] | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None

    # Refused unless they ask for nothing: see `frontend.openai.unsupported`.
    structural_tag: Any = None
    use_beam_search: Any = None
    logits_processors: Any = None
    thinking_token_budget: Any = None
    repetition_detection: Any = None
    kv_transfer_params: Any = None
