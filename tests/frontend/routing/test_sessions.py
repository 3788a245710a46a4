from hypothesis import given, settings
from hypothesis import strategies as st

from frontend.routing.sessions import LastTurn, Sessions

ALIVE = {0: 1, 1: 4}


def with_a_turn(rank: int = 1, incarnation: int = 4, context_tokens: int = 300) -> Sessions:
    sessions = Sessions()
    sessions.remember("a", LastTurn(rank, incarnation, context_tokens))
    return sessions


def test_a_sessions_last_engine_is_taken_to_hold_its_context() -> None:
    assert with_a_turn().with_soft_hit({}, "a", 500, ALIVE) == {1: 300}


def test_no_more_is_held_than_there_is() -> None:
    assert with_a_turn().with_soft_hit({}, "a", 200, ALIVE) == {1: 200}


def test_what_the_index_knows_stands_where_it_is_more() -> None:
    hits = {0: 500, 1: 400}
    assert with_a_turn().with_soft_hit(hits, "a", 1000, ALIVE) == {0: 500, 1: 400}
    assert hits == {0: 500, 1: 400}


def test_a_cache_dies_with_its_engine() -> None:
    assert with_a_turn(incarnation=3).with_soft_hit({}, "a", 500, ALIVE) == {}
    assert with_a_turn(rank=7).with_soft_hit({}, "a", 500, ALIVE) == {}


def test_a_session_that_moved_is_where_it_moved_to() -> None:
    sessions = with_a_turn()
    sessions.remember("a", LastTurn(0, 1, 350))
    assert sessions.with_soft_hit({}, "a", 500, ALIVE) == {0: 350}


def test_without_a_session_nothing_is_remembered() -> None:
    sessions = Sessions()
    sessions.remember("", LastTurn(0, 1, 10))
    assert len(sessions) == 0
    assert sessions.with_soft_hit({1: 5}, "", 10, ALIVE) == {1: 5}


def test_a_name_may_be_anything_that_a_header_may() -> None:
    sessions = Sessions()
    sessions.remember("\udcff" * 10_000, LastTurn(0, 1, 10))
    assert sessions.with_soft_hit({}, "\udcff" * 10_000, 99, ALIVE) == {0: 10}


@given(st.lists(st.integers(0, 9).map(str)))
@settings(deadline=None)
def test_those_that_were_seen_last_are_remembered(names: list[str]) -> None:
    sessions = Sessions(most_sessions=3)
    for number, name in enumerate(names):
        sessions.remember(name, LastTurn(0, 1, number + 1))
    newest = list(dict.fromkeys(reversed(names)))[:3]
    for name in map(str, range(10)):
        is_known = bool(sessions.with_soft_hit({}, name, 1000, ALIVE))
        assert is_known == (name in newest)
