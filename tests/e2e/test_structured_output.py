"""Answers of a real cluster that are held to a form, as the official client asks for them."""

from typing import Annotated

import openai
import pydantic
import pytest

from tests.support.launched_cluster import LaunchedCluster

pytestmark = pytest.mark.e2e


class Animal(pydantic.BaseModel):
    """What is asked for by a class of the client's own."""

    name: str = pydantic.Field(max_length=10)
    legs: int = pydantic.Field(ge=0, le=100)
    colours: list[Annotated[str, pydantic.Field(max_length=8)]] = pydantic.Field(max_length=2)


def test_the_official_client_parses_an_answer_into_a_class(tiny_cluster: LaunchedCluster) -> None:
    client = openai.OpenAI(base_url=f"{tiny_cluster.url}/v1", api_key="none", max_retries=0)
    answer = client.chat.completions.parse(
        model="tiny",
        messages=[{"role": "user", "content": "Name an animal."}],
        seed=3,
        response_format=Animal,
    )
    assert isinstance(answer.choices[0].message.parsed, Animal)


def test_a_form_that_cannot_be_enforced_is_the_clients_bad_request(
    tiny_cluster: LaunchedCluster,
) -> None:
    response = tiny_cluster.post(
        "/v1/completions", model="tiny", prompt="a", guided_json={"type": "notatype"}
    )
    assert (response.status_code, response.json()["error"]["param"]) == (400, "guided_json")
