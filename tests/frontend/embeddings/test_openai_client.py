"""The official client asks for embeddings."""

from collections.abc import AsyncIterator

import openai
import pytest
import pytest_asyncio

from tests.support.frontend_app import ANSWER, encode, engine_that_says, make_app
from tests.support.official_client import official_client
from tests.support.scripted_engine import ScriptedEngine, scripted_vector


@pytest.fixture
def engine() -> ScriptedEngine:
    return engine_that_says(ANSWER)


@pytest_asyncio.fixture
async def client(engine: ScriptedEngine) -> AsyncIterator[openai.AsyncOpenAI]:
    async with official_client(make_app(engine)) as client:
        yield client
    await engine.close()


async def test_texts_by_its_default_which_is_base64(client: openai.AsyncOpenAI) -> None:
    answer = await client.embeddings.create(model="tiny", input=["Hello", "there"])
    prompts = [[0, *encode("Hello")], [0, *encode("there")]]
    assert [datum.embedding for datum in answer.data] == [scripted_vector(p) for p in prompts]
    assert [datum.index for datum in answer.data] == [0, 1]
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == sum(map(len, prompts))
    assert (answer.object, answer.data[0].object, answer.model) == ("list", "embedding", "tiny")


async def test_token_ids_as_floats(client: openai.AsyncOpenAI) -> None:
    answer = await client.embeddings.create(
        model="tiny", input=[[5, 6], [7]], encoding_format="float", user="somebody"
    )
    assert [datum.embedding for datum in answer.data] == [
        scripted_vector([5, 6]), scripted_vector([7]),
    ]  # fmt: skip


async def test_base64_as_it_comes(client: openai.AsyncOpenAI) -> None:
    answer = await client.embeddings.create(
        model="tiny", input="Hello", encoding_format="base64", extra_body={"pooling": "last"}
    )
    embedding: object = answer.data[0].embedding  # said to be a list, whatever was asked for
    assert isinstance(embedding, str)


async def test_errors_become_its_exceptions(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await client.embeddings.create(model="tiny", input=[5] * 1000)
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError, match="dimensions"):
        await client.embeddings.create(model="tiny", input="Hello", dimensions=2)
    with pytest.raises(openai.NotFoundError):
        await client.embeddings.create(model="other", input="Hello")
