import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.drills.memory_slope import LEAST_SECONDS, MIB, Measurement, slope_of


def measured(start_mib: float, mib_per_hour: float, seconds: float = 600.0) -> list[Measurement]:
    return [
        Measurement(at, round((start_mib + mib_per_hour * at / 3600) * MIB))
        for at in (seconds * part / 40 for part in range(41))
    ]


@given(st.floats(20, 2000), st.floats(-100, 1000))
def test_the_slope_of_a_steady_growth_is_that_growth(start: float, growth: float) -> None:
    assert slope_of(measured(start, growth)) == pytest.approx(growth, abs=0.1)


def test_what_a_process_takes_while_it_settles_is_no_slope() -> None:
    young, old = measured(50, 5000, 600)[:12], measured(200, 0, 600)[12:]
    assert slope_of([*young, *old]) == pytest.approx(0, abs=0.1)


def test_of_a_short_life_no_slope_is_told() -> None:
    assert slope_of(measured(100, 50, LEAST_SECONDS - 1)) is None
    assert slope_of([]) is None
