"""C26: any frontend tells the numbers of the whole cluster, and no counter ever falls.

vllm#18053, vllm#5250, spire-codex#297, courtlistener#7980, client_python#495, client_python#566,
skypilot#9689.
"""

import asyncio

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.launched_cluster import LaunchedCluster
from tests.support.waiting import wait_until
from tests.support.ways import COMPLETIONS_PATH, Way

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

NUM_REQUESTS, NUM_TOKENS = 100, 7
Series = tuple[str, frozenset[tuple[str, str]]]


def scrape(cluster: LaunchedCluster, kinds: tuple[str, ...]) -> dict[Series, float]:
    """All samples of the metrics of these kinds, over a connection of its own."""
    text = cluster.get("/metrics").text
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        if family.type in kinds
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def counters(cluster: LaunchedCluster) -> dict[Series, float]:
    return scrape(cluster, ("counter", "histogram"))


async def ask_many(cluster: LaunchedCluster) -> None:
    way = Way(COMPLETIONS_PATH, is_streamed=False)
    async with httpx.AsyncClient(
        base_url=cluster.url, timeout=60, trust_env=False,
        limits=httpx.Limits(max_keepalive_connections=0),
    ) as client:  # fmt: skip
        await asyncio.gather(
            *(way.ask(client, max_tokens=NUM_TOKENS, ignore_eos=True) for _ in range(NUM_REQUESTS))
        )


def check_risen(before: dict[Series, float], after: dict[Series, float]) -> None:
    for series, value in before.items():
        assert after.get(series, 0.0) >= value, series


async def test_twenty_scrapes_tell_the_same_sums(cluster: LaunchedCluster) -> None:
    before = cluster.metric("quadriga_generation_tokens_total")
    await ask_many(cluster)
    values = [cluster.metric("quadriga_generation_tokens_total") - before for _ in range(20)]
    assert values == [NUM_REQUESTS * NUM_TOKENS] * 20


def test_no_series_is_of_one_process(cluster: LaunchedCluster) -> None:
    for kinds in (("counter", "histogram"), ("gauge",)):
        for name, labels in scrape(cluster, kinds):
            assert "pid" not in dict(labels), name


async def test_counters_rise_over_the_death_of_a_frontend_and_of_an_engine(
    cluster: LaunchedCluster,
) -> None:
    await ask_many(cluster)
    seen = counters(cluster)
    for name in ("frontend 1", "engine 1"):
        incarnation = cluster.find(name).incarnation
        cluster.kill(name)
        for _ in range(5):
            now = counters(cluster)
            check_risen(seen, now)
            seen = now
        cluster.wait_until_restarted(name, incarnation + 1)
    cluster.wait_until_ready()
    await ask_many(cluster)
    for _ in range(10):
        check_risen(seen, counters(cluster))
    wait_until(cluster.is_idle, 5)
    for gauge in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
        assert cluster.metric(f"quadriga_{gauge}") == 0
    assert cluster.metric("quadriga_engine_up") == 2
