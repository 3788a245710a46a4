from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from cluster.wire.messages import PROTOCOL_VERSION, EngineHello, EnginePhase, LoadReport
from frontend.engine_book import LEAD_STEPS, LEAST_LEAD_REQUESTS, Charge, EngineBook

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


def test_what_the_cache_holds_is_not_charged_but_the_last_token_always_is() -> None:
    book = new_book()
    book.dispatch("a", 40, hit_tokens=32)
    assert book.load(0.0).sent == Charge(1, 8, 40)
    book.dispatch("b", 32, hit_tokens=32)
    assert book.load(0.0).sent == Charge(2, 9, 72)


def test_the_blocks_of_a_request_are_promised_while_the_engine_has_it() -> None:
    book, hashes = new_book(), [b"first", b"second"]
    endings: list[Callable[[str], object]] = [
        book.settle,
        book.undo_dispatch,
        lambda request_id: book.withdraw(request_id, has_begun=False),
    ]
    for number, end in enumerate(endings):
        book.dispatch(str(number), 40, hashes)
        assert book.prefix.hit_tokens(hashes) == 32
        end(str(number))
        assert book.prefix.hit_tokens(hashes) == 0


def test_it_tells_how_many_requests_it_has_and_for_how_long_the_engine_is_known() -> None:
    book = EngineBook(HELLO, frontend=(2, 1), known_since=3.0)
    book.dispatch("a", 10)
    book.accept(report(1, acknowledged=1), made_at=0.0)
    load = book.load(5.0)
    assert (load.in_flight, load.known_seconds) == (1, 2.0)


# ── the lead ──


def full_report(step: int) -> LoadReport:
    return LoadReport(0, 1, step, EnginePhase.READY, step=step, running=8)


def test_one_request_of_each_frontend_may_wait_whatever_others_have_sent() -> None:
    book = new_book()
    book.accept(LoadReport(0, 1, 1, EnginePhase.READY, step=1, running=8, waiting=3), made_at=0.0)
    assert book.has_room(4, now=0.0)
    book.dispatch("waits", 1)
    assert not book.has_room(4, now=0.0)
    book.begin("waits")
    assert book.has_room(4, now=0.0)


def test_an_engine_with_free_places_that_has_measured_nothing_gets_some_at_once() -> None:
    book = new_book()
    book.accept(LoadReport(0, 1, 1, EnginePhase.READY), made_at=0.0)
    assert lead_of(book) == LEAST_LEAD_REQUESTS


def test_what_has_begun_elsewhere_needs_a_place_and_no_lead() -> None:
    book = new_book()
    most = book.hello.max_num_seqs
    book.accept(LoadReport(0, 1, 1, EnginePhase.READY, step=1, running=1), made_at=0.0)
    while book.has_room(1, now=0.0):
        book.dispatch(f"new {book.in_flight}", 10)
    assert book.in_flight < most - 1
    while book.has_room(1, now=0.0, has_begun=True):
        book.dispatch(f"moved {book.in_flight}", 10)
    assert book.in_flight == most - 1


def lead_of(book: EngineBook) -> int:
    """How many more it takes."""
    lead = 0
    while book.has_room(1, now=0.0):
        book.dispatch(f"lead {lead}", 1)
        lead += 1
    return lead


def test_what_ends_at_once_once_in_a_while_does_not_make_a_long_lead() -> None:
    book = new_book()
    for step in range(1, 200):
        if step % 32 == 0:
            for index in range(8):
                book.settle(str(index))
        book.accept(full_report(step), made_at=0.0)
    assert lead_of(book) <= 4


def test_the_lead_is_what_a_few_steps_end() -> None:
    book = new_book()
    for step in range(1, 100):
        for index in range(3):
            book.settle(str(index))
        book.accept(full_report(step), made_at=0.0)
    assert lead_of(book) == 3 * LEAD_STEPS


def test_an_engine_of_few_places_has_a_lead_of_one() -> None:
    book = new_book()
    for step in range(1, 100):
        book.accept(full_report(step), made_at=0.0)
    assert lead_of(book) == 1
