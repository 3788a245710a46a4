"""What the loads consist of."""

import random
from itertools import pairwise
from statistics import fmean, pstdev

import pytest

from loadtests.simulation.arrival_times import gamma_arrivals
from loadtests.simulation.cost_model import CostModel
from loadtests.simulation.lengths import Lengths
from loadtests.simulation.request import ClientRequest
from loadtests.simulation.workloads import WORKLOADS

COST = CostModel()


def requests_of(workload: str, rate: float = 20.0, seconds: float = 100.0) -> list[ClientRequest]:
    return WORKLOADS[workload].requests(rate, seconds, COST, random.Random(1))


def turns_of(first: ClientRequest) -> list[ClientRequest]:
    turns = [first]
    while turns[-1].next_turn is not None:
        turns.append(turns[-1].next_turn)
    return turns


@pytest.mark.parametrize("variation", [0.5, 1.0, 3.0])
def test_arrivals_have_their_rate_and_their_variation(variation: float) -> None:
    times = list(gamma_arrivals(50.0, 1000.0, variation, random.Random(0)))
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert len(times) / 1000.0 == pytest.approx(50.0, rel=0.1)
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(variation, rel=0.1)


def test_lengths_have_their_mean_and_their_ends() -> None:
    lengths = Lengths(500, 2.0, 10, 4000)
    source = random.Random(2)
    drawn = [lengths.draw(source) for _ in range(20_000)]
    assert (min(drawn), max(drawn)) == (10, 4000)
    assert fmean(drawn) == pytest.approx(lengths.mean_tokens, rel=0.05)
    assert Lengths(128).draw(source) == 128


@pytest.mark.parametrize("workload", WORKLOADS)
def test_requests_come_in_order_with_names_of_their_own(workload: str) -> None:
    requests = [turn for first in requests_of(workload) for turn in turns_of(first)]
    arrivals = [request.arrived_at for request in requests_of(workload)]
    assert arrivals == sorted(arrivals)
    assert len({request.request_id for request in requests}) == len(requests)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_run_offers_about_what_it_says(workload: str) -> None:
    requests = [turn for first in requests_of(workload) for turn in turns_of(first)]
    usual = [request for request in requests if request.tenant != "flood"]
    assert len(usual) / 100.0 == pytest.approx(20.0, rel=0.25)


def test_the_requests_of_a_prefix_group_begin_alike() -> None:
    requests = requests_of("prefix-groups")
    num_blocks = 4096 // COST.block_size
    prefixes = {request.hashes[:num_blocks] for request in requests}
    assert 20 < len(prefixes) <= 120
    rest = [block for request in requests for block in request.hashes[num_blocks:]]
    assert len(set(rest)) == len(rest)


def test_a_turn_begins_with_all_turns_before_it_and_their_answers() -> None:
    sessions = [turns_of(first) for first in requests_of("conversations")]
    assert max(map(len, sessions)) > 3
    for before, turn in [pair for turns in sessions for pair in pairwise(turns)]:
        assert turn.prompt_tokens > before.prompt_tokens + before.output_tokens
        assert turn.prompt_hashes[: len(before.hashes)] == before.hashes
        assert turn.think_seconds > 0


def test_the_flood_comes_in_the_middle_third_alone() -> None:
    times = [r.arrived_at for r in requests_of("flood") if r.tenant == "flood"]
    assert 100 / 3 <= min(times) <= max(times) <= 200 / 3
    assert len(times) > 1000


def test_capacity_falls_with_what_a_request_costs() -> None:
    assert COST.requests_per_second(512, 128) > COST.requests_per_second(1024, 128)
    assert COST.requests_per_second(512, 128) > COST.requests_per_second(512, 256)
    assert COST.requests_per_second(512, 128, 0.5) > COST.requests_per_second(512, 128)
    assert COST.slowed(2.0).requests_per_second(512, 128) == pytest.approx(
        COST.requests_per_second(512, 128) / 2
    )
