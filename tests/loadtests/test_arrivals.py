from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from loadtests.arrivals import poisson_arrivals


@given(rate=st.floats(0.01, 1000), number=st.integers(0, 50), seed=st.integers())
def test_arrivals_start_at_once_and_rise(rate: float, number: int, seed: int) -> None:
    offsets = poisson_arrivals(rate, number, seed)
    assert len(offsets) == number
    assert offsets == sorted(offsets)
    assert not offsets or offsets[0] == 0


def test_arrivals_come_at_the_rate_asked_for() -> None:
    assert 9.5 < 10_000 / poisson_arrivals(10, 10_000, seed=1)[-1] < 10.5


def test_gaps_spread_as_those_of_a_poisson_process_do() -> None:
    offsets = poisson_arrivals(1, 10_000, seed=2)
    gaps = [later - earlier for earlier, later in pairwise(offsets)]
    longer_than_the_mean = sum(gap > 1 for gap in gaps) / len(gaps)
    assert abs(longer_than_the_mean - 0.368) < 0.02


def test_equal_seeds_give_equal_arrivals_and_others_do_not() -> None:
    assert poisson_arrivals(5, 20, seed=3) == poisson_arrivals(5, 20, seed=3)
    assert poisson_arrivals(5, 20, seed=3) != poisson_arrivals(5, 20, seed=4)
