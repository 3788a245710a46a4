"""Two engines of the embedded model under one load: both do their share."""

import pytest

from loadtests.report_text import report_text
from loadtests.run import RunOptions, run
from tests.support.launched_cluster import LaunchedCluster, embedded_model

pytestmark = pytest.mark.drill

LARGEST_RATIO = 1.2


async def test_64_requests_at_16_at_once_spread_within_a_fifth() -> None:
    cluster = LaunchedCluster("--dp=2", "--frontends=2", *embedded_model()).wait_until_ready()
    try:
        report = await run(
            RunOptions(
                url=cluster.url, api_key=None, model=None, requests=64, concurrency=16,
                rate_per_second=None, input_tokens=128, output_tokens=128, prefix_share=0.0,
                vocabulary_size=40_000, prompts=None, chat=False, seed=0, timeout_seconds=300.0,
            )
        )  # fmt: skip
    finally:
        cluster.close()
    print(report_text(report))
    assert (report.completed, report.errors) == (64, {})
    assert report.engine_tokens is not None
    fewest, most = sorted(report.engine_tokens.values())
    assert most <= LARGEST_RATIO * fewest
