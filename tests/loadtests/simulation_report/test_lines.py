"""Labels at the ends of lines do not lie on each other."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.simulation.report.lines import moved_apart

DISTANCE = 0.05
heights = st.dictionaries(st.text(min_size=1), st.floats(0, 1), min_size=1, max_size=12)


@given(heights)
def test_labels_keep_their_order_and_their_distance(wanted: dict[str, float]) -> None:
    placed = moved_apart(wanted, DISTANCE)
    names = sorted(wanted, key=wanted.__getitem__)
    for lower, upper in pairwise(names):
        assert placed[upper] - placed[lower] >= DISTANCE - 1e-9
    assert sum(placed.values()) == pytest.approx(sum(wanted.values()))


def test_labels_that_are_apart_stay_where_they_are() -> None:
    wanted = {"a": 0.1, "b": 0.5, "c": 0.9}
    assert moved_apart(wanted, DISTANCE) == wanted
