import pytest

from frontend.routing.speeds import NO_SLOWNESS, SlownessScale, Speeds, typical_speeds
from tests.frontend.routing.loads import engine, silent_engine


def test_the_engine_in_the_middle_is_typical_and_of_two_the_faster() -> None:
    steps = {0: 0.03, 1: 0.01, 2: 0.02}
    loads = [engine(rank, decode_seconds_per_step=seconds) for rank, seconds in steps.items()]
    assert typical_speeds(loads).decode_seconds_per_step == 0.02
    assert typical_speeds(loads[:2]).decode_seconds_per_step == 0.01
    rates = [engine(rank, prefill_tokens_per_second=rate) for rank, rate in enumerate([100, 900])]
    assert typical_speeds(rates).prefill_tokens_per_second == 900


def test_before_anything_is_measured_there_is_a_prior() -> None:
    assert typical_speeds([engine(0), silent_engine(1)]) == Speeds()


@pytest.mark.parametrize("nonsense", [-5.0, 0.0, 1e-12, 1e12])
def test_nonsense_is_as_good_as_not_measured(nonsense: float) -> None:
    load = engine(0, prefill_tokens_per_second=nonsense, decode_seconds_per_step=nonsense)
    assert typical_speeds([load]) == Speeds()
    assert SlownessScale(Speeds()).of(load) == NO_SLOWNESS


def test_a_request_adds_some_of_the_steps_time_though_the_fit_says_nothing() -> None:
    fitted = engine(0, decode_seconds_per_step=0.1, decode_seconds_per_request=0.0)
    assert typical_speeds([fitted]).decode_seconds_per_request == pytest.approx(0.002)


def test_a_clear_difference_counts_and_a_small_one_does_not() -> None:
    typical = Speeds(prefill_tokens_per_second=1000.0)
    scale = SlownessScale(typical)
    assert scale.of(engine(0, running=1, prefill_tokens_per_second=700)) == NO_SLOWNESS
    assert scale.of(engine(0, running=1, prefill_tokens_per_second=500)).prefill == 2.0
    assert scale.of(engine(0, running=1, prefill_tokens_per_second=4000)).prefill == 0.25
    assert scale.of(engine(0, running=1, slowdown=1.9)) == NO_SLOWNESS
    assert scale.of(engine(0, running=1, slowdown=3.0)).momentary == 3.0


def test_slowness_is_forgiven_while_nothing_can_show_that_it_is_over() -> None:
    scale = SlownessScale(Speeds())
    busy = engine(0, age=0.5, running=1, slowdown=4.0, seconds_since_step=5.0)
    assert scale.of(busy).momentary == 4.0
    idle = engine(0, slowdown=4.0, seconds_since_step=1.0)
    assert scale.of(idle).momentary == pytest.approx(2.0)
    unheard = engine(0, age=2.0, running=1, slowdown=4.0)
    assert scale.of(unheard).momentary == pytest.approx(4.0**0.25)


def test_what_usual_steps_say_is_forgiven_later_than_a_passing_slowness() -> None:
    """Else every few seconds somebody waits for an engine that was always slow."""
    typical = Speeds(prefill_tokens_per_second=1000.0)
    idle = engine(0, prefill_tokens_per_second=250, slowdown=4.0, seconds_since_step=5.0)
    slowness = SlownessScale(typical).of(idle)
    assert slowness.prefill == pytest.approx(2.0)
    assert slowness.momentary < 1.1
