import itertools
import random
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.drills.history import Exchange, History, Mark
from loadtests.drills.timeline import (
    MOST_ROWS_OF_ONE,
    Span,
    Window,
    close_up,
    gaps_of,
    pack_rows,
    row_pitch,
    timeline_svg,
    token_spans,
    whole_window,
)
from tests.loadtests.drills.made_up import exchange, history

SVG = "{http://www.w3.org/2000/svg}"


def busy(num_clients: int, num_each: int) -> History:
    """Clients that ask one request after another."""
    source = random.Random(num_clients)
    answers: list[Exchange] = []
    for client in range(num_clients):
        at = source.random()
        for _ in range(num_each):
            tokens = list(range(source.randrange(5, 40)))
            answers.append(exchange(client, at, tokens, 0.02, kind=f"kind {client % 4}"))
            at = (answers[-1].ended_at or 0.0) + 0.01
    return history(*answers)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize(("clients", "each"), [(1, 1), (16, 1), (16, 12), (200, 1), (200, 5)])
def test_it_is_a_well_formed_picture_of_any_number_of_requests(clients: int, each: int) -> None:
    picture = ElementTree.fromstring(timeline_svg(busy(clients, each)))
    assert picture.tag == f"{SVG}svg"
    assert float(picture.attrib["height"]) < 1000


def test_an_empty_history_is_a_picture_too() -> None:
    ElementTree.fromstring(timeline_svg(history()))


def test_texts_from_outside_are_escaped() -> None:
    seen = history(exchange())
    seen.marks.append(Mark(0.2, "<script>alert(1)</script>"))
    assert "<script>" not in timeline_svg(seen)


@given(
    st.lists(
        st.tuples(st.floats(0, 50), st.integers(1, 30)),
        min_size=MOST_ROWS_OF_ONE + 1,
        max_size=90,
    )
)
def test_requests_in_one_row_never_overlap_and_none_is_lost(
    times: list[tuple[float, int]],
) -> None:
    answers = sorted(
        (exchange(n, at, list(range(size))) for n, (at, size) in enumerate(times)),
        key=lambda one: one.sent_at,
    )
    rows = pack_rows(answers)
    assert sum(map(len, rows)) == len(answers)
    for row in rows:
        ends = [one.ended_at or 0.0 for one in row]
        assert all(end <= later.sent_at for end, later in zip(ends, row[1:], strict=False))


def test_few_requests_have_a_row_each() -> None:
    answers = [exchange(number, sent_at=10.0 * number) for number in range(MOST_ROWS_OF_ONE)]
    assert pack_rows(answers) == [[one] for one in answers]


def test_rows_become_thinner_the_more_there_are_but_stay_visible() -> None:
    pitches = [row_pitch(number) for number in (1, 16, 50, 100, 200, 400)]
    assert pitches == sorted(pitches, reverse=True)
    assert min(pitches) > 2


def test_an_even_stream_has_no_hole_and_a_pause_is_one() -> None:
    one = exchange(tokens=list(range(60)), seconds_a_token=0.02)
    window = Window(0.0, 60.0)
    assert holes(token_spans(one, window)) == []
    for arrival in one.arrivals[30:]:
        arrival.at += 5.0
    (hole,) = holes(token_spans(one, window))
    assert hole > 80


def holes(spans: list[Span]) -> list[float]:
    """Pixels without tokens between tokens."""
    pairs = itertools.pairwise(spans)
    return [later.start - earlier.end for earlier, later in pairs if later.start > earlier.end]


def test_a_gap_is_what_is_far_longer_than_usual() -> None:
    one = exchange(tokens=list(range(20)), seconds_a_token=0.02)
    assert gaps_of(one) == []
    for arrival in one.arrivals[10:]:
        arrival.at += 1.0
    ((start, end),) = gaps_of(one)
    assert end - start == pytest.approx(1.02)
    slow = exchange(tokens=list(range(20)), seconds_a_token=0.9)
    assert gaps_of(slow) == []


def test_labels_give_way_to_each_other() -> None:
    seen = busy(4, 1)
    seen.marks = [Mark(0.5 + 0.001 * number, f"kill engine {number}") for number in range(10)]
    labels = [text for text in texts(timeline_svg(seen)) if "kill" in text]
    assert labels == ["kill engine 0", "kill engine 1", "kill engine 2"]


def test_references_are_not_shown() -> None:
    asked = exchange(sent_at=-100.0)
    asked.is_reference = True
    assert whole_window(history(asked, exchange(sent_at=5.0))).start > 4


def test_a_long_run_is_shown_close_up_about_a_fault_that_was_felt() -> None:
    short, long = busy(4, 1), busy(4, 200)
    for seen in (short, long):
        seen.marks = [Mark(0.4, "felt by nobody"), Mark(20.0, "felt")]
    assert close_up(short) is None or short.exchanges[-1].sent_at > 8
    for one in long.exchanges:
        one.migrations = int(one.overlaps(20.0, 20.0))
    window = close_up(long)
    assert window is not None
    assert window.has(20.0)
    assert not window.has(0.4)
