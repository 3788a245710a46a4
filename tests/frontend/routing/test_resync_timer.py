from cluster.wire.messages import (
    PROTOCOL_VERSION,
    BlockEvents,
    ClusterView,
    EngineHello,
    EnginePhase,
    LoadReport,
)
from frontend.cluster_view import STALE_VIEW_SECONDS, LiveView
from frontend.routing.prefix_index import PrefixIndex
from frontend.routing.resync_timer import ASK_AGAIN_SECONDS, EVENTS_LATE_SECONDS, ResyncTimer

LATE = EVENTS_LATE_SECONDS + 0.01


def events(seq: int) -> BlockEvents:
    return BlockEvents(0, 1, seq, [], [])


def test_events_that_do_not_come_are_asked_for() -> None:
    timer, index = ResyncTimer(), PrefixIndex(16)
    assert not timer.is_due(index, 1, 10.0)
    assert not timer.is_due(index, 1, 10.0 + EVENTS_LATE_SECONDS / 2)
    assert timer.is_due(index, 1, 10.0 + LATE)


def test_who_is_always_a_little_behind_asks_for_nothing() -> None:
    timer, index = ResyncTimer(), PrefixIndex(16)
    for turn in range(1, 100):
        assert not timer.is_due(index, turn + 2, 0.1 * turn)
        index.apply(events(turn))


def test_after_a_gap_it_asks_although_newer_events_come() -> None:
    timer, index = ResyncTimer(), PrefixIndex(16)
    assert not timer.is_due(index, 0, 0.0)
    index.apply(events(2))
    assert timer.is_due(index, 2, LATE)


def test_it_asks_once_a_second_at_most() -> None:
    timer, index = ResyncTimer(), PrefixIndex(16)
    index.apply(events(2))
    assert timer.is_due(index, 2, 5.0)
    timer.note_asked(5.0)
    assert not timer.is_due(index, 2, 5.0 + ASK_AGAIN_SECONDS / 2)
    assert timer.is_due(index, 2, 5.0 + ASK_AGAIN_SECONDS)


def test_nobody_is_asked_while_the_coordinator_is_away() -> None:
    view = LiveView((0, 1), 1.0, 0.0)
    view.apply(ClusterView(1, 1, draining=False, engines=[], frontends=[]), 0.0)
    view.welcome(EngineHello(PROTOCOL_VERSION, 0, 1, "model", 1024, 16, 100, 8, "seed"), 0.0)
    assert not view.resyncs_due(0.0)
    view.accept_report(LoadReport(0, 1, 1, EnginePhase.READY, events_seq=1), 0.0)
    assert not view.resyncs_due(0.0)
    assert view.resyncs_due(LATE) == [view.books[0]]
    assert not view.resyncs_due(STALE_VIEW_SECONDS + LATE)
