"""Whatever JSON a client sends, it is requests that engines can take, or an error that says why."""

import contextlib
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.errors import RequestError
from cluster.wire.codec import Decoder, Encoder
from cluster.wire.messages import AddRequest
from frontend.embeddings.inputs import EmbeddingInputs
from frontend.embeddings.schemas import EmbeddingBody
from frontend.input_processor import Arrival
from frontend.openai.decoding import decode_body
from tests.frontend.test_any_body import NUMBERS, VALUES, fields_of
from tests.support.frontend_app import ANSWER, MODEL, engine_that_says, make_app

INPUTS = EmbeddingInputs(make_app(engine_that_says(ANSWER)).state.services)
PROMPTS = st.one_of(st.text(max_size=8), st.lists(NUMBERS, max_size=4), VALUES)


@settings(max_examples=300, deadline=None)
@given(value=PROMPTS, fields=fields_of(EmbeddingBody))
def test_any_body_is_requests_or_a_clear_error(value: Any, fields: dict[str, Any]) -> None:
    body = msgspec.json.encode({"input": value, **fields})
    with contextlib.suppress(RequestError):
        requests = INPUTS.prepare(decode_body(body, EmbeddingBody), Arrival(0.0), None)
        assert requests
        for request in requests:
            assert 1 <= len(request.prompt_token_ids) <= MODEL.max_model_len
            assert all(0 <= i < MODEL.vocab_size for i in request.prompt_token_ids)
            message = AddRequest(
                request.request_id, 0, 1, 1, 0, request.prompt_token_ids, [], request.block_hashes,
                request.sampling, request.priority, request.cache_salt,
            )  # fmt: skip
            assert Decoder(AddRequest).decode(Encoder().encode(message)) == message
