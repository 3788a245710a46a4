"""A whole cluster over TLS, with its keys in files: what serves, and what is shown to nobody."""

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import psutil
import pytest

from loadtests.drills.processes import is_running
from tests.cluster.operate.test_cli import cluster_command
from tests.support.certificates import Certificate, make_certificate
from tests.support.launched_cluster import LaunchedCluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

USER_KEYS, ADMIN_KEY = ("first-secret", "second-secret"), "root-secret"
BODY: dict[str, Any] = {"model": "tiny", "prompt": "x", "max_tokens": 4}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def cluster(
    tiny_model: Path, certificate: Certificate, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LaunchedCluster]:
    folder = tmp_path_factory.mktemp("keys")
    (folder / "users").write_text("# users\n" + "\n".join(USER_KEYS))
    (folder / "admins").write_text(ADMIN_KEY)
    cluster = LaunchedCluster(
        f"--model={tiny_model}", "--served-model-name=tiny", "--dp=1", "--frontends=2",
        "--kv-cache-memory=32MiB", "--log-level=debug",
        f"--api-key-file={folder / 'users'}", f"--admin-key-file={folder / 'admins'}",
        f"--ssl-certfile={certificate.certfile}", f"--ssl-keyfile={certificate.keyfile}",
    )  # fmt: skip
    yield cluster.wait_until_ready()
    cluster.close()


@pytest.fixture
def client(cluster: LaunchedCluster, certificate: Certificate) -> Iterator[httpx.Client]:
    trust = ssl.create_default_context(cafile=certificate.certfile)
    with httpx.Client(base_url=cluster.url, verify=trust, trust_env=False) as client:
        yield client


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_each_key_of_a_file_opens_what_it_is_for(client: httpx.Client) -> None:
    assert str(client.base_url).startswith("https://")
    for key in (*USER_KEYS, ADMIN_KEY):
        assert client.post("/v1/completions", json=BODY, headers=bearer(key)).status_code == 200
    assert client.post("/v1/completions", json=BODY).status_code == 401
    assert client.get("/cluster/decisions", headers=bearer(USER_KEYS[0])).status_code == 403
    assert client.get("/cluster/decisions", headers=bearer(ADMIN_KEY)).status_code == 200


def test_keys_are_not_shown(cluster: LaunchedCluster, client: httpx.Client) -> None:
    launcher = psutil.Process(cluster.process.pid)
    shown = [
        *(" ".join(p.cmdline()) for p in (launcher, *launcher.children(recursive=True))),
        client.get("/cluster", headers=bearer(ADMIN_KEY)).text,
        client.get("/metrics").text,
        cluster_command(cluster.directory / "quadriga", "status", "--json").stdout,
        cluster.log(),
        *(path.read_text() for path in (cluster.run_directory / "logs").iterdir()),
    ]
    assert len(shown) > 5
    assert not [text for text in shown if "secret" in text]
    assert cluster.run_directory.stat().st_mode & 0o077 == 0


def test_operation_goes_on_over_tls(cluster: LaunchedCluster, client: httpx.Client) -> None:
    client.post("/v1/completions", json=BODY, headers=bearer(ADMIN_KEY))
    root = cluster.directory / "quadriga"
    assert f"at {cluster.url}" in cluster_command(root, "status").stdout
    decisions = cluster_command(root, "decisions")
    assert decisions.returncode == 0, decisions.stderr
    for probe in ("/health", "/ready", "/metrics"):
        assert client.get(probe).status_code == 200


def test_http2_is_spoken_where_the_client_can(
    cluster: LaunchedCluster, certificate: Certificate
) -> None:
    trust = ssl.create_default_context(cafile=certificate.certfile)

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(http2=True, verify=trust, trust_env=False) as client:
            answers = await asyncio.gather(
                *(
                    client.post(
                        f"{cluster.url}/v1/completions",
                        json={**BODY, "stream": True},
                        headers=bearer(USER_KEYS[0]),
                    )
                    for _ in range(32)
                )
            )
        assert all(answer.text.endswith("data: [DONE]\n\n") for answer in answers)
        return answers[0]

    assert asyncio.run(ask()).http_version == "HTTP/2"


def test_the_official_client_is_served(cluster: LaunchedCluster, certificate: Certificate) -> None:
    trust = ssl.create_default_context(cafile=certificate.certfile)
    with openai.OpenAI(
        base_url=f"{cluster.url}/v1", api_key=USER_KEYS[1], max_retries=0,
        http_client=openai.DefaultHttpxClient(verify=trust, trust_env=False),
    ) as client:  # fmt: skip
        chunks = list(client.completions.create(stream=True, **BODY))
    assert chunks[-1].choices[0].finish_reason in ("length", "stop")


def test_a_stream_over_tls_that_is_left_leaves_nothing_behind(
    cluster: LaunchedCluster, client: httpx.Client
) -> None:
    body = {**BODY, "max_tokens": 3000, "stream": True, "ignore_eos": True}
    with client.stream("POST", "/v1/completions", json=body, headers=bearer(ADMIN_KEY)) as left:
        next(left.iter_raw())

    def is_idle() -> bool:
        return "num_requests_running" in client.get("/metrics").text and not any(
            engine["load"]["running"] + engine["load"]["waiting"]
            for engine in client.get("/cluster", headers=bearer(ADMIN_KEY)).json()["engines"]
        )

    wait_until(is_idle, 5)
    assert is_running(cluster.process.pid)
