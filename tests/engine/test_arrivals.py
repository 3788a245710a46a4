"""What reports count of messages that the busy loop has not seen."""

from dataclasses import replace

from engine.arrivals import Arrivals, Arrived
from engine.load_reporter import LoadReporter, StepProgress, acknowledged_with
from engine.speed_model import Speeds
from engine.stats import EngineStats


def stats(waiting: int, waiting_prompt_tokens: int) -> EngineStats:
    return EngineStats(
        1, waiting, 0, waiting_prompt_tokens, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0.0, Speeds(), ()
    )


def test_requests_count_from_their_arrival_until_the_busy_loop_has_them() -> None:
    arrivals = Arrivals()
    first, second = Arrived(0, 1, 1, 10), Arrived(0, 1, 2, 20)
    arrivals.add(first)
    arrivals.add(second)
    assert arrivals.counted() == [first, second]
    arrivals.take_in([(0, 1, 1)])
    assert arrivals.counted() == [second]
    arrivals.take_in([(0, 1, 2)])
    assert arrivals.counted() == []


def test_an_abort_hides_what_came_after_it() -> None:
    arrivals = Arrivals()
    first, of_another = Arrived(0, 1, 1, 10), Arrived(1, 1, 1, 30)
    for arrived in (first, Arrived(0, 1, 2, 0), Arrived(0, 1, 3, 20), of_another):
        arrivals.add(arrived)
    assert arrivals.counted() == [first, of_another]


def test_what_a_frontend_that_is_gone_has_sent_counts_no_longer() -> None:
    arrivals = Arrivals()
    arrivals.add(Arrived(0, 1, 7, 10))
    arrivals.add(Arrived(0, 2, 1, 20))
    arrivals.forget(0, 1)
    arrivals.forget(3, 1)
    assert arrivals.counted() == [Arrived(0, 2, 1, 20)]


def test_an_older_incarnation_of_a_frontend_acknowledges_nothing_of_the_new_one() -> None:
    arrivals = Arrivals()
    arrivals.add(Arrived(0, 2, 1, 20))
    arrivals.take_in([(0, 1, 9)])
    assert arrivals.counted() == [Arrived(0, 2, 1, 20)]


def test_a_report_names_the_newest_message_that_it_counts() -> None:
    known = [(0, 1, 4), (1, 1, 2)]
    assert acknowledged_with(known, []) == known
    arrived = [Arrived(0, 1, 5, 10), Arrived(0, 1, 6, 10), Arrived(2, 3, 1, 10)]
    assert acknowledged_with(known, arrived) == [(0, 1, 6), (1, 1, 2), (2, 3, 1)]


def test_a_report_adds_what_has_arrived_to_what_the_newest_step_has_left() -> None:
    reporter = LoadReporter(0, 1, StepProgress())
    reporter.on_step(stats(waiting=2, waiting_prompt_tokens=50), [(0, 1, 4)])
    reporter.on_arrival(Arrived(0, 1, 5, 10))
    report = reporter.report(0.0, events_seq=0)
    assert (report.waiting, report.waiting_prompt_tokens) == (3, 60)
    assert report.acknowledged == [(0, 1, 5)]
    reporter.on_frontend_gone(0, 1)
    assert reporter.report(0.0, events_seq=0).waiting == 2


def test_what_a_flood_sends_is_passed_by_what_others_send() -> None:
    reporter = LoadReporter(0, 1, StepProgress())
    flooded = replace(stats(2, 50), unpassed_prompt_tokens=20, crowding=frozenset({"flood"}))
    reporter.on_step(flooded, [])
    reporter.on_arrival(Arrived(0, 1, 5, 10, "flood"))
    reporter.on_arrival(Arrived(0, 1, 6, 7, "quiet"))
    report = reporter.report(0.0, events_seq=0)
    assert (report.waiting_prompt_tokens, report.unpassed_prompt_tokens) == (67, 27)
