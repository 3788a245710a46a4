import pytest

from loadtests.comparison.absence import goodput_lost
from tests.loadtests.comparison.made_up import record

BEFORE = [record(due_at=second) for second in range(10)]


def test_nothing_is_lost_if_all_answers_stay_good() -> None:
    assert goodput_lost([*BEFORE, record(due_at=12)], 10, 20) == 0


def test_late_and_failed_answers_are_lost() -> None:
    late, failed = record(5.0, due_at=11), record(due_at=12, error_kind="timeout")
    good = [record(due_at=second) for second in (13, 14)]
    assert goodput_lost([*BEFORE, late, failed, *good], 10, 20) == pytest.approx(0.5)


def test_what_was_bad_before_is_not_blamed_on_the_absence() -> None:
    half = [*BEFORE, *(record(5.0, due_at=second) for second in range(10))]
    then = [record(due_at=11), record(5.0, due_at=12)]
    assert goodput_lost([*half, *then], 10, 20) == pytest.approx(0)


def test_what_is_due_after_the_absence_does_not_count() -> None:
    late = record(5.0, due_at=21)
    assert goodput_lost([*BEFORE, record(due_at=12), late], 10, 20) == 0


def test_without_a_good_answer_before_all_is_lost() -> None:
    assert goodput_lost([record(due_at=12)], 10, 20) == 1
