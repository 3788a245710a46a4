"""POST /v1/embeddings: bodies, answers, refusals, and clients that leave."""

import base64
import json
from array import array
from typing import Any

import httpx
import msgspec
import pytest

from cluster.errors import Overloaded
from cluster.wire.sampling import FinishReason, Pooling, PoolingParams
from tests.support.asgi_call import AsgiCall
from tests.support.frontend_app import (
    ANSWER,
    MODEL,
    encode,
    engine_that_says,
    http_client,
    make_app,
)
from tests.support.scripted_engine import scripted_vector

URL = "/v1/embeddings"
WIDE = msgspec.structs.replace(MODEL, hidden_size=3)
CONTEXT = MODEL.max_model_len


async def ask(client: httpx.AsyncClient, value: Any = "Hello", **fields: Any) -> Any:
    answer = await client.post(URL, json={"input": value, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def error_of(client: httpx.AsyncClient, **body: Any) -> Any:
    answer = await client.post(URL, json=body)
    assert answer.status_code == 400, answer.text
    return answer.json()["error"]


async def test_a_text_has_the_vector_of_its_tokens() -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine) as client:
        answer = await ask(client, "Hello there")
    token_ids = [0, *encode("Hello there")]
    assert answer == {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": scripted_vector(token_ids)}],
        "model": "tiny",
        "usage": {"prompt_tokens": len(token_ids), "total_tokens": len(token_ids)},
    }
    (request,) = engine.submitted
    assert request.request_id.startswith("embd-")
    assert request.sampling.pooling == PoolingParams(Pooling.MEAN, normalize=True)
    assert engine.finish_reasons == [FinishReason.STOP]
    assert not engine.aborted


async def test_inputs_are_texts_token_ids_or_lists_of_either_in_their_order() -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine) as client:
        for value, prompts in (
            ([5, 6, 7], [[5, 6, 7]]),
            (["a", "b"], [[0, *encode("a")], [0, *encode("b")]]),
            ([[5, 6], [7]], [[5, 6], [7]]),
        ):
            engine.submitted.clear()
            answer = await ask(client, value)
            assert [r.prompt_token_ids for r in engine.submitted] == prompts
            assert [datum["index"] for datum in answer["data"]] == list(range(len(prompts)))
            assert [datum["embedding"] for datum in answer["data"]] == [
                scripted_vector(prompt) for prompt in prompts
            ]
            assert answer["usage"]["prompt_tokens"] == sum(map(len, prompts))


async def test_base64_is_of_little_endian_floats() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        answer = await ask(client, [[5, 6], [7]], encoding_format="base64")
        numbers = [array("f", base64.b64decode(datum["embedding"])) for datum in answer["data"]]
        assert [list(vector) for vector in numbers] == [
            scripted_vector([5, 6]),
            scripted_vector([7]),
        ]
        floats = await ask(client, [5, 6], encoding_format="float")
        assert floats["data"][0]["embedding"] == scripted_vector([5, 6])


async def test_many_inputs_are_answered_alike() -> None:
    """So many vectors are encoded in a thread."""
    async with http_client(engine_that_says(ANSWER)) as client:
        answer = await ask(client, [[token_id % 300] * 2 for token_id in range(1024)])
        assert [datum["embedding"][1] for datum in answer["data"]] == [
            2.0 * (token_id % 300) for token_id in range(1024)
        ]
        more = await error_of(client, input=[[5]] * 1025)
        assert more["param"] == "input"
        assert "1024" in more["message"]


async def test_what_the_body_says_of_pooling_and_routing_reaches_the_engine() -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine) as client:
        await ask(
            client, [5] * 9, pooling="last", normalize=False, priority=-3, cache_salt="s",
            data_parallel_rank=0, user="somebody", model="tiny",
        )  # fmt: skip
        await ask(client, [5] * 9, pooling="mean")
        await ask(client, "Hello", add_special_tokens=False)
    last, mean, bare = engine.submitted
    assert last.sampling.pooling == PoolingParams(Pooling.LAST, normalize=False)
    assert (last.priority, last.cache_salt, last.pinned_rank) == (-3, "s", 0)
    assert len(last.block_hashes) == 2
    # No engine is chosen for a prefix that must be computed anyway.
    assert mean.block_hashes == []
    assert bare.prompt_token_ids == encode("Hello")


async def test_a_prompt_may_fill_the_context_and_no_more() -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine) as client:
        assert (await ask(client, [5] * CONTEXT))["usage"]["prompt_tokens"] == CONTEXT
        engine.submitted.clear()
        error = await error_of(client, input=[[5], [5] * (CONTEXT + 1)])
        assert (error["code"], error["param"]) == ("context_length_exceeded", "input")
        assert error["message"].startswith(
            f"This model's maximum context length is {CONTEXT} tokens. However, you requested "
            f"{CONTEXT + 1} tokens"
        )
        assert not engine.submitted


async def test_a_prompt_that_no_engine_holds_is_refused() -> None:
    async with http_client(engine_that_says(ANSWER, kv_capacity_tokens=20)) as client:
        await ask(client, [5] * 20)
        assert "at most 20 tokens" in (await error_of(client, input=[5] * 21))["message"]


@pytest.mark.parametrize(("keep", "kept"), [(3, 3), (CONTEXT, CONTEXT), (-1, CONTEXT)])
async def test_a_long_prompt_keeps_its_end_where_that_is_asked_for(keep: int, kept: int) -> None:
    engine = engine_that_says(ANSWER)
    token_ids = [token_id % 300 for token_id in range(200)]
    async with http_client(engine) as client:
        answer = await ask(client, token_ids, truncate_prompt_tokens=keep)
    assert engine.submitted[0].prompt_token_ids == token_ids[-kept:]
    assert answer["usage"]["total_tokens"] == kept


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": []}, "input"),
        ({"input": [[]]}, "input"),
        ({"input": [1, "a"]}, "input"),
        ({"input": None}, "input"),
        ({"input": {}}, "input"),
        ({"input": [True]}, "input"),
        ({"input": [999_999_999]}, "input"),
        ({"input": [-1]}, "input"),
        ({"input": "", "add_special_tokens": False}, "input"),
        ({"encoding_format": "hex"}, "encoding_format"),
        ({"pooling": "max"}, "pooling"),
        ({"normalize": "yes"}, "normalize"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": 2}, "dimensions"),
        ({"dimensions": 4}, "dimensions"),
        ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"truncate_prompt_tokens": -2}, "truncate_prompt_tokens"),
        ({"truncate_prompt_tokens": CONTEXT + 1}, "truncate_prompt_tokens"),
        ({"priority": 2**31}, "priority"),
        ({"cache_salt": "a/b"}, "cache_salt"),
        ({"cache_salt": ""}, "cache_salt"),
        ({"data_parallel_rank": -1}, "data_parallel_rank"),
        ({"embed_dtype": "float16"}, "embed_dtype"),
        ({"endianness": "big"}, "endianness"),
        ({"use_activation": False}, "use_activation"),
    ],
)
async def test_what_is_wrong_is_400_naming_the_field(fields: dict[str, Any], param: str) -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine, WIDE) as client:
        error = await error_of(client, **({"input": "Hi"} | fields))
        assert error["param"].partition("[")[0] == param
        assert error["message"]
        assert not engine.submitted


async def test_the_model_s_own_width_may_be_asked_for() -> None:
    async with http_client(engine_that_says(ANSWER), WIDE) as client:
        await ask(client, dimensions=3, embed_dtype="float32", endianness="little")
    async with http_client(engine_that_says(ANSWER)) as client:
        assert "left out" in (await error_of(client, input="a", dimensions=3))["message"]


async def test_nothing_but_input_is_required_and_null_is_nothing() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        assert (await error_of(client, model="tiny"))["message"] == "input is required"
        names = ("model", "encoding_format", "dimensions", "user", "pooling", "priority")
        assert await ask(client, "a", **dict.fromkeys(names)) == await ask(client, "a")
        other = await client.post(URL, json={"input": "a", "model": "other"})
        assert other.status_code == 404


async def test_one_input_that_fails_fails_all_and_the_others_are_aborted() -> None:
    engine = engine_that_says(ANSWER)
    submit = engine.submit

    def submit_and_fail(request: Any) -> Any:
        stream = submit(request)
        if request.prompt_token_ids == [7]:
            stream.fail("it burns")
        return stream

    engine.submit = submit_and_fail  # type: ignore[method-assign] # one input alone fails
    async with http_client(engine) as client:
        answer = await client.post(URL, json={"input": [[5], [6], [7], [8]]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "engine_failed")
    assert len(engine.told) == 4
    assert engine.finish_reasons.count(FinishReason.ERROR) == 1


async def test_an_input_that_is_not_taken_on_takes_back_those_before() -> None:
    engine = engine_that_says(ANSWER)
    submit = engine.submit

    def submit_two(request: Any) -> Any:
        if len(engine.submitted) == 2:
            raise Overloaded("too much waits", 3, "full")
        return submit(request)

    engine.submit = submit_two  # type: ignore[method-assign] # the third is refused
    async with http_client(engine) as client:
        answer = await client.post(URL, json={"input": [[5], [6], [7]]})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")
    assert sorted(engine.aborted) == sorted(request.request_id for request in engine.submitted)


async def test_where_there_is_no_room_nothing_is_tokenized() -> None:
    engine = engine_that_says(ANSWER, room_error=Overloaded("too much waits", 2, "full"))
    async with http_client(engine) as client:
        answer = await client.post(URL, json={"input": [999_999_999]})  # which would be refused
    assert answer.status_code == 429


async def test_a_client_that_leaves_ends_all_its_inputs() -> None:
    engine = engine_that_says(ANSWER, tokens_before_hold=0)
    app = make_app(engine)
    async with app.router.lifespan_context(app):
        call = AsgiCall(app, URL, json.dumps({"input": [[5], [6], [7]]}).encode())
        await engine.wait_until_holding()
        call.leave()
        await call.end()
        assert len(engine.aborted) == 3
        assert set(engine.finish_reasons) == {FinishReason.ABORT}
        assert not call.sent
    await engine.close()


async def test_keys_are_asked_for() -> None:
    async with http_client(engine_that_says(ANSWER), api_key=["secret"]) as client:
        assert (await client.post(URL, json={"input": "a"})).status_code == 401
