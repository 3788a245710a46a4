"""The API over TLS, to the clients that people have."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.support.certificates import Certificate, make_certificate
from tests.support.frontend_app import ANSWER, engine_that_says, events_of
from tests.support.served_frontend import raw_connection, served_frontend
from tests.support.waiting import wait_until_async

PATH = "/v1/completions"
BODY: dict[str, Any] = {"prompt": "Hi", "max_tokens": 5}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def settings_of(certificate: Certificate, **more: Any) -> dict[str, Any]:
    files = {"ssl_certfile": str(certificate.certfile), "ssl_keyfile": str(certificate.keyfile)}
    return files | more


def trust(certificate: Certificate) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate.certfile)


@pytest.mark.parametrize(("http2", "version"), [(True, "HTTP/2"), (False, "HTTP/1.1")])
async def test_both_versions_of_http_are_offered(
    certificate: Certificate, http2: bool, version: str
) -> None:
    async with (
        served_frontend(engine_that_says(ANSWER), **settings_of(certificate)) as served,
        httpx.AsyncClient(
            base_url=served.url, http2=http2, verify=trust(certificate), trust_env=False
        ) as client,
    ):
        whole = await client.post(PATH, json=BODY)
        assert (whole.status_code, whole.http_version) == (200, version)
        streamed = await client.post(PATH, json={**BODY, "stream": True})
        text = "".join(event["choices"][0]["text"] for event in events_of(streamed))
        assert text == whole.json()["choices"][0]["text"]


async def test_the_official_client_is_served(certificate: Certificate) -> None:
    async with (
        served_frontend(engine_that_says(ANSWER), **settings_of(certificate)) as served,
        openai.AsyncOpenAI(
            base_url=f"{served.url}/v1", api_key="none", max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(verify=trust(certificate), trust_env=False),
        ) as client,
    ):  # fmt: skip
        stream = await client.completions.create(model="tiny", stream=True, **BODY)
        assert "".join([chunk.choices[0].text async for chunk in stream])


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
async def test_curl_is_served(certificate: Certificate, version: str) -> None:
    async with served_frontend(engine_that_says(ANSWER), **settings_of(certificate)) as served:
        curl = await asyncio.create_subprocess_exec(
            "curl", "-sN", version, "--cacert", str(certificate.certfile), f"{served.url}{PATH}",
            "-H", "Content-Type: application/json", "-d", '{"prompt": "Hi", "stream": true}',
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        answer, _ = await asyncio.wait_for(curl.communicate(), 20)
    assert curl.returncode == 0
    assert answer.endswith(b"data: [DONE]\n\n")


async def test_who_speaks_no_tls_is_no_trouble(certificate: Certificate) -> None:
    async with served_frontend(engine_that_says(ANSWER), **settings_of(certificate)) as served:
        async with raw_connection(served.port) as plain:
            plain.writer.write(b"GET /health HTTP/1.1\r\nHost: t\r\n\r\n")
            assert b"HTTP" not in await plain.answer()
        async with raw_connection(served.port):  # says nothing, and leaves
            await wait_until_async(lambda: served.num_connections == 1)
        await wait_until_async(lambda: served.num_connections == 0)
        async with httpx.AsyncClient(verify=trust(certificate), trust_env=False) as client:
            assert (await client.get(f"{served.url}/health")).status_code == 200


async def test_a_client_that_leaves_its_stream_is_noticed(certificate: Certificate) -> None:
    engine = engine_that_says(ANSWER, tokens_before_hold=2)
    async with (
        served_frontend(engine, **settings_of(certificate)) as served,
        httpx.AsyncClient(verify=trust(certificate), trust_env=False) as client,
    ):
        body = {**BODY, "stream": True}
        async with client.stream("POST", served.url + PATH, json=body) as left:
            await anext(left.aiter_raw())
        await engine.wait_until_aborted()
        await wait_until_async(lambda: served.num_connections == 0, 5)


async def test_a_large_body_that_is_refused_is_told_so(certificate: Certificate) -> None:
    settings = settings_of(certificate, max_body_bytes=2048)
    async with (
        served_frontend(engine_that_says(ANSWER), **settings) as served,
        httpx.AsyncClient(verify=trust(certificate), trust_env=False) as client,
    ):
        headers = {"content-type": "application/json"}
        refused = await client.post(served.url + PATH, content=b" " * 10_000_000, headers=headers)
        assert refused.status_code == 413


async def test_where_clients_need_a_certificate_others_are_not_served(
    certificate: Certificate, tmp_path: Path
) -> None:
    own = make_certificate(tmp_path, "client")
    settings = settings_of(certificate, ssl_ca_certs=str(own.certfile))
    async with served_frontend(engine_that_says(ANSWER), **settings) as served:
        async with httpx.AsyncClient(verify=trust(certificate), trust_env=False) as stranger:
            with pytest.raises(httpx.TransportError):
                await stranger.get(f"{served.url}/health")
        known = trust(certificate)
        known.load_cert_chain(own.certfile, own.keyfile)
        async with httpx.AsyncClient(verify=known, trust_env=False) as client:
            assert (await client.get(f"{served.url}/health")).status_code == 200


async def test_an_encrypted_key_is_opened_with_its_password(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, password="secret")
    settings = settings_of(certificate, ssl_keyfile_password="secret")
    async with (
        served_frontend(engine_that_says(ANSWER), **settings) as served,
        httpx.AsyncClient(verify=trust(certificate), trust_env=False) as client,
    ):
        assert (await client.get(f"{served.url}/health")).status_code == 200
