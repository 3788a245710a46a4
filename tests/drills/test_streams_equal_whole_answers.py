"""Two hundred unlike questions to two engines of the embedded model, each asked whole and streamed."""

import pytest

from tests.support.launched_cluster import LaunchedCluster, embedded_model
from tests.support.stream_equality import check_streams_equal

pytestmark = [pytest.mark.drill, pytest.mark.timeout(900)]

NUM_QUESTIONS = 200


async def test_every_stream_is_its_whole_answer_to_the_last_byte() -> None:
    cluster = LaunchedCluster("--dp=2", "--frontends=2", *embedded_model()).wait_until_ready()
    try:
        num_stopped = await check_streams_equal(cluster.url, NUM_QUESTIONS)
    finally:
        cluster.close()
    print(f"{NUM_QUESTIONS} questions, {num_stopped} of them with a stop string as well")
    assert num_stopped > 0.8 * NUM_QUESTIONS
