from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from loadtests.sse import SseParser

STREAM = (
    b": hello\n\ndata: one\n\nevent: x\ndata: two\r\n\r\n: keep-alive\n\ndata:three\ndata: four\n\n"
)
EVENTS = [b"one", b"two", b"three\nfour"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_do_not_depend_on_how_the_bytes_are_cut(cuts: list[int]) -> None:
    parser = SseParser()
    edges = [0, *sorted(cuts), len(STREAM)]
    events: list[bytes] = []
    for start, end in pairwise(edges):
        events += parser.feed(STREAM[start:end])
    assert events == EVENTS


def test_an_event_that_is_not_complete_is_held_back() -> None:
    parser = SseParser()
    assert parser.feed(b"data: one\n") == []
    assert parser.feed(b"\n") == [b"one"]


def test_comments_alone_are_no_event() -> None:
    assert SseParser().feed(b": waiting\n\n\n\n") == []
