"""Whatever JSON a client sends, it is a request that engines can take, or an error that says why."""

import contextlib
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.config import ClusterConfig
from cluster.errors import RequestError
from cluster.wire.codec import Decoder, Encoder
from cluster.wire.messages import AddRequest
from frontend.input_processor import Arrival, InputProcessor, PreparedRequest
from frontend.openai.decoding import decode_body
from frontend.openai.schemas import ChatBody, CompletionBody
from tests.support.frontend_app import MODEL
from tests.support.tiny_tokenizer import tiny_tokenizer

INPUTS = InputProcessor(ClusterConfig(), MODEL, tiny_tokenizer())
NUMBERS = st.one_of(
    st.integers(-3, 130),
    st.sampled_from([2**31, 2**63, -(2**63), 2**70, 1e-9, 0.5, 2.5, 1e308]),
    st.floats(allow_nan=False, allow_infinity=False),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=5,
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "system", "wizard", "developer", ""])},
        optional={"content": st.one_of(st.text(max_size=8), VALUES), "tool_calls": VALUES},
    ),
    min_size=1,
    max_size=3,
)


def fields_of(body_type: type[msgspec.Struct]) -> st.SearchStrategy[dict[str, Any]]:
    names = [field.name for field in msgspec.structs.fields(body_type)]
    return st.dictionaries(st.sampled_from(names), st.one_of(NUMBERS, VALUES), max_size=4)


def check(prepared: PreparedRequest) -> None:
    """Every request travels, and asks for nothing beyond the model's limits."""
    for request in prepared.requests[:2]:
        sampling = request.sampling
        assert 1 <= len(request.prompt_token_ids) + sampling.max_tokens <= MODEL.max_model_len
        assert sampling.min_tokens <= sampling.max_tokens
        assert 0 <= sampling.temperature <= 2
        named = [*sampling.stop_token_ids, *sampling.allowed_token_ids, *request.prompt_token_ids]
        named += [token_id for token_id, _ in sampling.logit_bias]
        assert all(0 <= token_id < MODEL.vocab_size for token_id in named)
        message = AddRequest(
            request.request_id, 0, 1, 1, 0, request.prompt_token_ids, [], request.block_hashes,
            sampling, request.priority, request.cache_salt,
        )  # fmt: skip
        assert Decoder(AddRequest).decode(Encoder().encode(message)) == message


@settings(max_examples=300, deadline=None)
@given(messages=MESSAGES, fields=fields_of(ChatBody))
def test_any_chat_body_is_a_request_or_a_clear_error(
    messages: list[Any], fields: dict[str, Any]
) -> None:
    body = msgspec.json.encode({"messages": messages, **fields})
    with contextlib.suppress(RequestError):
        check(INPUTS.prepare_chat(decode_body(body, ChatBody), Arrival(0.0), None))


@settings(max_examples=300, deadline=None)
@given(prompt=st.one_of(st.text(max_size=8), VALUES), fields=fields_of(CompletionBody))
def test_any_completion_body_is_a_request_or_a_clear_error(
    prompt: Any, fields: dict[str, Any]
) -> None:
    body = msgspec.json.encode({"prompt": prompt, **fields})
    with contextlib.suppress(RequestError):
        check(INPUTS.prepare_completion(decode_body(body, CompletionBody), Arrival(0.0), None))
