"""What turns come to: ratios for each peer, lines, failures."""

import pytest

from loadtests.comparison.summary import Measure
from loadtests.peers_lab.figures import THROUGHPUT
from tests.loadtests.peers_lab.made_up import comparison, turn


def test_the_first_server_is_compared_with_each_other_one() -> None:
    made = comparison(turn("ours", 0, 30.0), turn("a", 0, 10.0), turn("b", 0, 60.0))
    assert made.candidate == "ours"
    ours, a, b = made.summaries
    assert ours.ratios == {}
    assert a.ratios[THROUGHPUT] == Measure(3.0, 3.0, 3.0)
    assert b.ratios[THROUGHPUT] == Measure(0.5, 0.5, 0.5)


@pytest.mark.parametrize(("speed", "is_kept"), [(15.0, True), (14.9, False)])
def test_a_line_is_kept_from_its_ratio_on(speed: float, is_kept: bool) -> None:
    made = comparison(turn("ours", 0, speed), turn("peer"), lines={"peer": 1.5})
    assert [line.is_kept for line in made.lines] == [is_kept]
    assert made.passed == is_kept


def test_a_line_without_a_ratio_is_not_kept() -> None:
    made = comparison(turn("ours", 0), turn("peer", 1), lines={"peer": 0.1})
    assert not made.passed


def test_a_failed_request_of_anybody_fails_the_comparison() -> None:
    made = comparison(turn("ours", 0), turn("ours", 1), turn("peer", 0, errors=1), turn("peer", 1))
    assert [(s.failed_requests, s.requests) for s in made.summaries] == [(0, 2), (1, 3)]
    assert not made.passed
    assert comparison(turn("ours"), turn("peer")).passed
