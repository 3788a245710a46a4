"""C04: a body that is not said to be JSON is 415 in the error shape, never a server's error.

vllm#11171, vllm#13193.
"""

import json

import httpx

from tests.support.scripted_engine import ScriptedEngine
from tests.support.ways import Way, check_refused

OTHERS = [
    "application/x-www-form-urlencoded",  # what curl sends with -d
    "text/plain",
    "text/json",
    "multipart/form-data; boundary=x",
    "application/octet-stream",
    "application/jsonp",
    "",
    None,
]
NAMES = [
    "application/json",
    "application/json; charset=utf-8",
    "Application/JSON;charset=UTF-8",
    "application/json ; x=y",
    "application/vnd.api+json",
]
NO_JSON = [b"", b"model=tiny&prompt=Hi", b'"prompt"', b"\x00\xff", b"{"]


async def test_another_type_is_415(
    way: Way, engine: ScriptedEngine, client: httpx.AsyncClient
) -> None:
    for content_type in OTHERS:
        headers = {} if content_type is None else {"content-type": content_type}
        answer = await client.post(way.path, content=json.dumps(way.body()), headers=headers)
        message = check_refused(answer, None, "unsupported_media_type", 415)
        assert "application/json" in message
    assert not engine.submitted
    await way.ask(client)


async def test_json_by_any_of_its_names_is_taken(way: Way, client: httpx.AsyncClient) -> None:
    for content_type in NAMES:
        headers = {"content-type": content_type}
        answer = await client.post(way.path, content=json.dumps(way.body()), headers=headers)
        assert answer.status_code == 200, (content_type, answer.text)


async def test_what_is_called_json_and_is_none_is_400(
    way: Way, engine: ScriptedEngine, client: httpx.AsyncClient
) -> None:
    headers = {"content-type": "application/json"}
    for body in NO_JSON:
        check_refused(await client.post(way.path, content=body, headers=headers), None)
    assert not engine.submitted
