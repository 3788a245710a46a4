"""A coordinator that stops sending views is noticed, and one that starts slowly is not."""

from cluster.launch.coordinator_watch import CoordinatorWatch


def ask_until(watch: CoordinatorWatch, start: float, end: float) -> float | None:
    """What it says when asked every half second, at the end."""
    now, silence = start, None
    while now <= end:
        silence = watch.silence(now)
        now += 0.5
    return silence


def test_views_that_cease_are_noticed() -> None:
    watch = CoordinatorWatch(3.0)
    watch.heard(10.0)
    assert ask_until(watch, 10.0, 13.0) is None
    assert ask_until(watch, 13.5, 13.5) == 3.5


def test_a_coordinator_that_was_never_heard_is_still_starting() -> None:
    watch = CoordinatorWatch(3.0)
    assert ask_until(watch, 0.0, 100.0) is None
    watch.heard(100.0)
    watch.restarted()
    assert ask_until(watch, 100.0, 200.0) is None


def test_the_first_view_of_each_coordinator_is_known_as_such() -> None:
    watch = CoordinatorWatch(3.0)
    assert [watch.heard(1.0), watch.heard(2.0)] == [True, False]
    watch.restarted()
    assert watch.heard(3.0)


def test_a_pause_of_our_own_proves_nothing() -> None:
    watch = CoordinatorWatch(3.0)
    watch.heard(0.0)
    assert ask_until(watch, 0.0, 1.0) is None
    assert ask_until(watch, 100.0, 103.0) is None
    assert ask_until(watch, 103.5, 103.5) == 3.5
