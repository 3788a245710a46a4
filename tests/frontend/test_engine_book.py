from hypothesis import given
from hypothesis import strategies as st

from cluster.wire.messages import PROTOCOL_VERSION, EngineHello, EnginePhase, LoadReport
from frontend.engine_book import Charge, EngineBook

HELLO = EngineHello(PROTOCOL_VERSION, 0, 1, "model", 1024, 16, 100, 8, "seed")


def new_book() -> EngineBook:
    return EngineBook(HELLO, frontend=(2, 1))


def report(seq: int, acknowledged: int, frontend: tuple[int, int] = (2, 1)) -> LoadReport:
    return LoadReport(0, 1, seq, EnginePhase.READY, acknowledged=[(*frontend, acknowledged)])


def test_a_dispatch_counts_until_a_report_includes_it() -> None:
    book = new_book()
    book.dispatch("a", 10)
    book.dispatch("b", 20)
    assert book.load(0.0).sent == Charge(2, 30, 30)
    book.accept(report(1, acknowledged=1), made_at=0.0)
    assert book.load(0.0).sent == Charge(1, 20, 20)


def test_an_abort_counts_against_the_report_until_it_is_included() -> None:
    book = new_book()
    book.dispatch("a", 10)
    book.accept(report(1, acknowledged=1), made_at=0.0)
    assert book.withdraw("a", has_begun=True) == 2
    assert book.load(0.0).withdrawn == Charge(1, 0, 10)
    book.accept(report(2, acknowledged=2), made_at=0.0)
    assert book.load(0.0).withdrawn == Charge()


def test_a_late_older_report_changes_nothing() -> None:
    book = new_book()
    book.dispatch("a", 10)
    book.accept(report(5, acknowledged=0), made_at=1.0)
    book.accept(report(4, acknowledged=1), made_at=2.0)
    assert book.unacknowledged == 1


def test_what_the_engine_acknowledges_to_others_is_not_ours() -> None:
    book = new_book()
    book.dispatch("a", 10)
    book.accept(report(1, acknowledged=9, frontend=(2, 2)), made_at=0.0)
    book.accept(report(2, acknowledged=9, frontend=(1, 1)), made_at=0.0)
    assert book.unacknowledged == 1


def test_a_dispatch_that_the_socket_refused_leaves_no_trace() -> None:
    book = new_book()
    first = book.dispatch("a", 10)
    book.undo_dispatch("a")
    assert (book.in_flight, book.unacknowledged) == (0, 0)
    assert book.dispatch("b", 10) == first


@given(st.lists(st.sampled_from(["send", "abort", "engine takes one", "report arrives"])))
def test_report_plus_books_is_the_truth_about_own_requests(events: list[str]) -> None:
    """An engine that takes messages in order and reports now and then, over a slow link."""
    book = new_book()
    link: list[tuple[int, int]] = []  # (dispatch_seq, change of the engine's request count)
    reports: list[tuple[int, LoadReport]] = []
    alive: list[str] = []
    engine_count = engine_seq = reported_count = 0
    for number, event in enumerate(events):
        if event == "send":
            link.append((book.dispatch(f"r{number}", 1), 1))
            alive.append(f"r{number}")
        elif event == "abort" and alive:
            link.append((book.withdraw(alive.pop(0), has_begun=False), -1))
        elif event == "engine takes one" and link:
            engine_seq, change = link.pop(0)
            engine_count += change
            reports.append((engine_count, report(number, engine_seq)))
        elif event == "report arrives" and reports:
            reported_count, newest = reports.pop(0)
            book.accept(newest, made_at=0.0)
        load = book.load(0.0)
        assert reported_count + load.sent.requests - load.withdrawn.requests == len(alive)


def test_what_was_sent_can_be_taken_back() -> None:
    book = new_book()
    book.dispatch("a", 10)
    book.dispatch("b", 20)
    book.undo_dispatch("b")
    assert book.load(0.0).sent == Charge(1, 10, 10)
    assert book.dispatch("c", 5) == 2
