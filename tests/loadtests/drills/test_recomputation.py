import pytest

from loadtests.drills.history import Arrival, Choice, Exchange, History, Mark
from loadtests.drills.recomputation import gaps_beyond_recomputation


def moved(prompt_tokens: int, *arrivals: tuple[float, int]) -> Exchange:
    """A streamed request of one choice that went on in another engine."""
    return Exchange(
        "greedy", "/v1/completions", {"stream": True}, 0.0, prompt_tokens=prompt_tokens, migrations=1,
        arrivals=[Arrival(at, 0, number) for at, number in arrivals], choices={0: Choice()},
    )  # fmt: skip


def test_what_moved_at_one_kill_is_computed_again_by_the_survivors_together() -> None:
    history = History(marks=[Mark(2.0, "kill engine 0")])
    history.exchanges = [
        moved(190, (1.0, 5), (2.0, 5), (6.0, 1)),
        moved(95, (1.9, 5), (4.9, 1)),
    ]
    # 200 and 100 tokens of context, at 100 a second on each of two engines
    assert gaps_beyond_recomputation(history, 2, 100.0) == pytest.approx([4 - 1.5, 3 - 1.5])


def test_each_kill_counts_for_its_own_victims() -> None:
    history = History(marks=[Mark(2.0, "kill engine 0"), Mark(20.0, "kill engine 1")])
    history.exchanges = [
        moved(100, (2.0, 0), (3.5, 1), (4.0, 1)),
        moved(300, (19.5, 0), (24.0, 1), (24.1, 1)),
    ]
    assert gaps_beyond_recomputation(history, 1, 100.0) == pytest.approx([0.5, 1.5])


def test_a_stream_that_moved_twice_counts_at_both_kills_and_one_that_stayed_at_none() -> None:
    history = History(marks=[Mark(2.0, "kill engine 0"), Mark(20.0, "kill engine 1")])
    twice = moved(100, (2.0, 0), (5.0, 1), (18.9, 1), (19.9, 1), (24.0, 1))
    twice.migrations = 2
    once = moved(100, (1.9, 0), (2.1, 1), (3.2, 1), (18.9, 0), (19.9, 1), (23.0, 1))
    history.exchanges = [twice, once]  # 206 tokens of context at the second kill
    beyond = sorted(gaps_beyond_recomputation(history, 1, 100.0))
    assert beyond == pytest.approx(sorted([3 - 1.0, 4.1 - 2.06, 3.1 - 2.06]), abs=0.02)


def test_each_choice_of_a_request_is_computed_again() -> None:
    both = moved(20, (1.0, 10), (4.0, 1))
    both.arrivals.append(Arrival(1.0, 1, 30))
    both.arrivals.append(Arrival(5.0, 1, 1))
    both.choices[1] = Choice()
    both.migrations = 2
    history = History(marks=[Mark(1.5, "kill engine 0")], exchanges=[both])
    assert sorted(gaps_beyond_recomputation(history, 1, 100.0)) == pytest.approx([2.2, 3.2])


def test_an_answer_that_comes_whole_is_computed_again_too() -> None:
    stream = moved(95, (1.0, 5), (6.0, 1))
    whole = Exchange(
        "greedy", "/v1/completions", {}, 0.0, ended_at=8.0, prompt_tokens=90, completion_tokens=40,
        migrations=1, choices={0: Choice()},
    )  # fmt: skip
    history = History(marks=[Mark(2.0, "kill engine 0")], exchanges=[stream, whole])
    # a quarter of its time had passed, and so it had 10 tokens at least
    assert gaps_beyond_recomputation(history, 1, 100.0) == pytest.approx([5 - 2.0])


def test_a_stutter_at_no_kill_and_other_faults_do_not_count() -> None:
    history = History(marks=[Mark(2.0, "freeze engine 0")])
    history.exchanges = [moved(10, (2.0, 1), (5.0, 1))]
    assert gaps_beyond_recomputation(history, 1, 100.0) == []
