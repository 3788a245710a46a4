"""Forty unlike questions to two simulated engines, each asked whole and streamed."""

import pytest

from tests.support.launched_cluster import LaunchedCluster
from tests.support.stream_equality import check_streams_equal

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

NUM_QUESTIONS = 40


async def test_every_stream_is_its_whole_answer_to_the_last_byte(cluster: LaunchedCluster) -> None:
    assert await check_streams_equal(cluster.url, NUM_QUESTIONS) > 0.8 * NUM_QUESTIONS
