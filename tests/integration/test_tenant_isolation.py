"""One key's flood costs another next to nothing: real cores, lines and books, in virtual time."""

import pytest

from loadtests.drills.verdict import percentile
from tests.support.virtual_cluster import (
    LINK_SECONDS,
    PREFILL_TOKENS_PER_SECOND,
    STEP_SECONDS,
    Client,
    VirtualCluster,
)

CHUNK_TOKENS = 128
STEP_WITH_PROMPTS_SECONDS = STEP_SECONDS + CHUNK_TOKENS / PREFILL_TOKENS_PER_SECOND
TWO_STEPS_SECONDS = 2 * (STEP_WITH_PROMPTS_SECONDS + LINK_SECONDS)
"""The step that is under way, which nothing interrupts, and the one that computes the prompt."""
QUIET = Client("quiet", (20, 40), (4, 4), longest_pause_seconds=0.3)
LOUD = Client("loud", (20, 45), (8, 16))
LOUD_WITH_LONG_PROMPTS = Client("loud", (500, 1500), (8, 16))


def cluster(num_engines: int, num_frontends: int, num_keys: int = 2) -> VirtualCluster:
    keys = ["quiet", "loud"][:num_keys]
    return VirtualCluster(
        num_engines, num_frontends, keys, max_num_seqs=16, enable_prefix_caching=False
    )


def quiet_ttfts(cluster: VirtualCluster, loud: Client) -> list[float]:
    """Times to the first token of two clients beside a flood, once that has all it gets."""
    cluster.run([loud] * 30 * len(cluster.engines), 1.0)
    cluster.run([QUIET] * 2, 20.0)
    return [asked.ttft_seconds for asked in cluster.asked if asked.tenant == "quiet"]


@pytest.mark.parametrize(("num_engines", "num_frontends"), [(2, 1), (2, 4), (4, 2)])
def test_beside_a_flood_a_prompt_waits_for_the_step_under_way_and_its_own(
    num_engines: int, num_frontends: int
) -> None:
    times = quiet_ttfts(cluster(num_engines, num_frontends), LOUD)
    assert len(times) > 120
    assert percentile(times, 0.99) <= TWO_STEPS_SECONDS


def test_beside_a_flood_of_long_prompts_a_short_one_waits_a_step_longer_at_most() -> None:
    times = quiet_ttfts(cluster(2, 2), LOUD_WITH_LONG_PROMPTS)
    assert percentile(times, 0.95) <= TWO_STEPS_SECONDS + LINK_SECONDS
    assert percentile(times, 0.99) <= TWO_STEPS_SECONDS + STEP_WITH_PROMPTS_SECONDS


def test_a_flood_beside_nobody_has_all_places_but_the_reserved_ones() -> None:
    with_one_key, with_two_keys = cluster(2, 2, num_keys=1), cluster(2, 2)
    for flooded in (with_one_key, with_two_keys):
        flooded.run([LOUD] * 60, 5.0)
    tokens = [sum(e.tokens_made for e in c.engines) for c in (with_one_key, with_two_keys)]
    assert tokens[1] > 0.86 * tokens[0]
