"""Restarts at once while they are few, then later and later, then hardly ever."""

from hypothesis import given
from hypothesis import strategies as st

from cluster.launch.restart_policy import (
    BACK_OFF_SECONDS,
    PARKED_SECONDS,
    Restart,
    RestartPolicy,
)

WINDOW_SECONDS = 60.0


def crash_loop(policy: RestartPolicy, deaths: int, lifetime: float = 0.1) -> list[Restart]:
    """The verdicts on a process that dies `lifetime` after each start."""
    now, verdicts = 0.0, []
    for _ in range(deaths):
        policy.started(now)
        now += lifetime
        verdicts.append(policy.died(now, jitter=0.5))
        now += verdicts[-1].delay_seconds
    return verdicts


def test_the_first_few_deaths_are_followed_by_a_restart_at_once() -> None:
    verdicts = crash_loop(RestartPolicy(3, WINDOW_SECONDS), 4)
    assert [verdict.delay_seconds for verdict in verdicts] == [0, 0, 0, 1]


def test_a_crash_loop_backs_off_doubling_and_is_then_parked() -> None:
    verdicts = crash_loop(RestartPolicy(0, WINDOW_SECONDS), 9)
    assert [verdict.delay_seconds for verdict in verdicts] == [1, 2, 4, 8, 16, 32, 60, 300, 300]
    assert [verdict.parked for verdict in verdicts] == [False] * 7 + [True] * 2


def test_a_life_as_long_as_the_window_forgives_everything() -> None:
    policy = RestartPolicy(1, WINDOW_SECONDS)
    assert crash_loop(policy, 12)[-1].parked
    policy.started(10_000.0)
    assert policy.died(10_000.0 + WINDOW_SECONDS, 0.5) == Restart(0.0, False)


def test_who_is_forgiven_starts_from_the_beginning() -> None:
    policy = RestartPolicy(1, WINDOW_SECONDS)
    assert crash_loop(policy, 12)[-1].parked
    policy.forgive()
    assert [verdict.delay_seconds for verdict in crash_loop(policy, 2)] == [0, 1]


def test_rare_deaths_are_always_restarted_at_once() -> None:
    verdicts = crash_loop(RestartPolicy(3, WINDOW_SECONDS), 50, lifetime=25.0)
    assert {verdict.delay_seconds for verdict in verdicts} == {0.0}


def test_jitter_spreads_a_delay_by_a_quarter_either_way() -> None:
    delays = [RestartPolicy(0, 60).died(0.0, jitter).delay_seconds for jitter in (0.0, 0.5, 1.0)]
    assert delays == [0.75, 1.0, 1.25]


@given(
    max_restarts=st.integers(0, 5),
    lives=st.lists(
        st.tuples(st.floats(0.001, 100.0), st.floats(0, 1, exclude_max=True)), max_size=60
    ),
)
def test_no_window_ever_sees_more_immediate_restarts_than_allowed(
    max_restarts: int, lives: list[tuple[float, float]]
) -> None:
    policy, now, immediate = RestartPolicy(max_restarts, WINDOW_SECONDS), 0.0, []
    for lifetime, jitter in lives:
        policy.started(now)
        now += lifetime
        delay, parked = policy.died(now, jitter)
        assert 0 <= delay <= max(BACK_OFF_SECONDS[-1] * 1.25, PARKED_SECONDS)
        assert parked == (delay == PARKED_SECONDS)
        if delay == 0:
            immediate.append(now)
        now += delay
    for first in immediate:
        assert sum(first <= at < first + WINDOW_SECONDS for at in immediate) <= max_restarts
