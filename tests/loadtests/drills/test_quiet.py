from dataclasses import dataclass, field

import msgspec
import pytest

from loadtests.drills.processes import ProcessResources
from loadtests.drills.quiet import (
    MOST_MORE_FILES,
    ClusterState,
    ProcessState,
    check_idle,
    check_leftovers,
    check_metrics,
    count_history,
    is_idle,
)
from tests.loadtests.drills.made_up import exchange, history


@dataclass
class Made:
    """What a made-up cluster holds; by default nothing."""

    running: int = 0
    waiting: int = 0
    used_blocks: int = 0
    queued: int = 0
    open_files: int = 30
    tcp_connections: int = 0
    counters: dict[str, float] = field(default_factory=dict)
    restarts: int = 0

    def state(self) -> ClusterState:
        resources = ProcessResources(1, self.open_files, self.tcp_connections)
        names = ("stop", "length", "tokens", "migrations", "engine restarts", "ended")
        return ClusterState(
            processes=(ProcessState("engine 0", 7, self.restarts, resources),),
            running=self.running,
            waiting=self.waiting,
            used_blocks=self.used_blocks,
            queued=self.queued,
            counters=dict.fromkeys(names, 0.0) | self.counters,
        )


def test_a_cluster_that_holds_nothing_is_idle() -> None:
    assert is_idle(Made().state())
    assert check_idle(Made().state(), Made().state()).passed


@pytest.mark.parametrize(
    ("made", "detail"),
    [
        (Made(running=1), "1 requests running"),
        (Made(waiting=2), "2 requests waiting in engines"),
        (Made(used_blocks=3), "3 KV blocks in use"),
        (Made(queued=4), "4 requests held by frontends"),
        (Made(tcp_connections=5), "5 open connections of engine 0"),
    ],
)
def test_whatever_is_left_over_is_found(made: Made, detail: str) -> None:
    assert not is_idle(made.state())
    check = check_idle(Made().state(), made.state())
    assert (check.passed, check.detail) == (False, detail)


def test_open_files_that_grow_without_end_are_found() -> None:
    first = Made().state()
    assert check_idle(first, Made(open_files=30 + MOST_MORE_FILES).state()).passed
    check = check_idle(first, Made(open_files=31 + MOST_MORE_FILES).state())
    assert check.detail == f"engine 0 has {31 + MOST_MORE_FILES} open files, 30 at the start"


def test_a_process_that_is_new_is_not_compared_with_the_old_one() -> None:
    last = Made(open_files=500).state()
    newer = msgspec.structs.replace(last.processes[0], pid=8)
    last = msgspec.structs.replace(last, processes=(newer,))
    assert check_idle(Made().state(), last).passed


RIGHT = {"length": 2.0, "tokens": 16.0, "migrations": 1.0, "engine restarts": 1.0}


def test_metrics_that_agree_pass_and_each_that_does_not_is_found() -> None:
    moved = exchange(1)
    moved.migrations = 1
    seen = history(exchange(), moved)
    first = Made().state()
    assert check_metrics(seen, first, Made(counters=RIGHT, restarts=1).state(), True).passed
    for name, value in RIGHT.items():
        wrong = Made(counters=RIGHT | {name: value + 1}, restarts=1).state()
        assert name in check_metrics(seen, first, wrong, is_exact=True).detail
        assert check_metrics(seen, first, wrong, is_exact=False).passed
        fewer = Made(counters=RIGHT | {name: value - 1}, restarts=1).state()
        assert not check_metrics(seen, first, fewer, is_exact=False).passed


def test_what_was_counted_before_the_drill_does_not_count() -> None:
    first = Made(counters={"tokens": 100.0, "length": 5.0}).state()
    last = Made(counters={"tokens": 108.0, "length": 6.0}).state()
    assert check_metrics(history(exchange()), first, last, is_exact=True).passed


def test_tokens_of_failed_requests_count_their_ends_do_not() -> None:
    failed = exchange()
    failed.failure = "broken"
    assert count_history(history(failed)) == {"stop": 0, "length": 0, "tokens": 8, "migrations": 0}


def test_leftovers_are_named() -> None:
    assert check_leftovers([5], [], [], live=[5]).passed
    check = check_leftovers([5, 6], ["f0.1.requests"], ["flight-0.1"], live=[5])
    assert not check.passed
    assert check.detail == "process 6, socket f0.1.requests, flight record flight-0.1"


def test_tokens_past_a_stop_string_do_not_count_either() -> None:
    stopped = exchange(stop=["x"], max_tokens=10)
    for counted, is_right in ((8, True), (9, False)):
        last = Made(counters={"tokens": counted, "length": 1.0}).state()
        check = check_metrics(history(stopped), Made().state(), last, is_exact=True)
        assert check.passed == is_right
