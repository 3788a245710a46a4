from hypothesis import given
from hypothesis import strategies as st

from loadtests.simulation.report.spread import Spread

values = st.lists(st.floats(0, 1e6), min_size=1, max_size=9)


@given(values)
def test_the_median_lies_between_the_lowest_and_the_highest(seeds: list[float]) -> None:
    spread = Spread.of(seeds)
    assert (spread.low, spread.high) == (min(seeds), max(seeds))
    assert spread.low <= spread.median <= spread.high


def test_the_order_of_seeds_does_not_matter() -> None:
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert Spread.of([3.0, 1.0, 2.0]).scaled(1000) == Spread(2000.0, 1000.0, 3000.0)
