"""When an engine tells all frontends how busy it is."""

import pytest

from engine.news_timer import ARRIVAL_SECONDS, STEP_SECONDS_PER_ENGINE, NewsTimer


def test_without_news_nothing_is_due() -> None:
    timer = NewsTimer(2)
    assert timer.due_at == float("inf")
    timer.on_step(1.0)
    timer.told(1.0)
    assert timer.due_at == float("inf")


def test_the_first_arrival_is_told_at_once_and_those_close_behind_it_together() -> None:
    timer = NewsTimer(2)
    timer.on_arrival(5.0)
    assert timer.due_at == 5.0
    timer.told(5.0)
    timer.on_arrival(5.0002)
    timer.on_arrival(5.0004)
    assert timer.due_at == pytest.approx(5.0 + ARRIVAL_SECONDS)


def test_the_more_engines_there_are_the_less_often_each_tells_of_its_steps() -> None:
    for num_engines in (1, 8, 64):
        timer = NewsTimer(num_engines)
        timer.told(5.0)
        timer.on_step(5.0)
        assert timer.due_at == pytest.approx(5.0 + STEP_SECONDS_PER_ENGINE * num_engines)


def test_an_arrival_does_not_wait_for_the_turn_of_a_step() -> None:
    timer = NewsTimer(64)
    timer.told(5.0)
    timer.on_step(5.01)
    timer.on_arrival(5.02)
    assert timer.due_at == 5.02
    timer.on_step(5.03)
    assert timer.due_at == 5.02
