"""Embeddings of a launched cluster: the same from every engine, and counted like all requests."""

from typing import Any

import pytest

from tests.support.launched_cluster import LaunchedCluster, sum_samples

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

URL = "/v1/embeddings"
PROMPTS = [
    [3 + (7 * index + place) % 300 for place in range(1 + 40 * index)] for index in range(12)
]


def vectors(cluster: LaunchedCluster, **fields: Any) -> list[list[float]]:
    answer = cluster.post(URL, input=PROMPTS, **fields)
    assert answer.status_code == 200, answer.text
    return [datum["embedding"] for datum in answer.json()["data"]]


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_every_engine_gives_the_same_vectors(tiny_cluster: LaunchedCluster, pooling: str) -> None:
    spread = vectors(tiny_cluster, pooling=pooling)
    for rank in (0, 1):
        assert vectors(tiny_cluster, pooling=pooling, data_parallel_rank=rank) == spread


def test_embeddings_are_counted_as_requests_are(tiny_cluster: LaunchedCluster) -> None:
    before = tiny_cluster.get("/metrics").text
    vectors(tiny_cluster)
    after = tiny_cluster.get("/metrics").text
    for name, counted in [
        ("quadriga_prompt_tokens_total", sum(map(len, PROMPTS))),
        ("quadriga_generation_tokens_total", 0),
        ("quadriga_request_success_total", len(PROMPTS)),
        ("quadriga_time_to_first_token_seconds_count", len(PROMPTS)),
        ("quadriga_e2e_request_latency_seconds_count", len(PROMPTS)),
    ]:
        assert sum_samples(after, name) - sum_samples(before, name) == counted, name
