"""One policy against another, seed by seed."""

import pytest

from loadtests.simulation.report.comparison import against_peer, ranked, ratio_words
from loadtests.simulation.report.spread import Spread
from tests.loadtests.simulation_report.made_up import seeds_of


def test_equal_seeds_are_compared() -> None:
    policies = {
        "vllm": seeds_of("vllm", 0.2, 2.0, 0.1),
        "marginal-cost": seeds_of("marginal-cost", 0.1, 1.0, 0.05),
    }
    assert against_peer(policies, "marginal-cost") == Spread(0.5, 0.5, 0.5)


def test_without_a_peer_or_a_common_seed_there_is_no_ratio() -> None:
    ours = seeds_of("marginal-cost", 0.1)
    assert against_peer({"marginal-cost": ours}, "marginal-cost") is None
    later = seeds_of("vllm", 0.2, 0.2)[1:]
    assert against_peer({"marginal-cost": ours, "vllm": later}, "marginal-cost") is None
    assert against_peer({"vllm": later}, "vllm") is None


def test_the_lowest_median_comes_first() -> None:
    policies = {
        "random": seeds_of("random", 0.1, 0.5, 0.6),
        "vllm": seeds_of("vllm", 0.4, 0.4, 0.4),
    }
    assert ranked(policies) == ["vllm", "random"]


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(0.69, "−31 %"), (1.5, "+50 %"), (0.998, "±0 %"), (0.5, "÷ 2.0"), (0.1, "÷ 10.0")],
)
def test_ratios_are_said_as_people_say_them(ratio: float, words: str) -> None:
    assert ratio_words(Spread(ratio, ratio, ratio)) == words
    assert ratio_words(None) == "–"
