from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.drills.checker import (
    DOUBLE_LIFE_SECONDS,
    check_history,
    differences,
    double_lives,
    not_one_end,
    num_choices,
    wrong_usage,
)
from loadtests.drills.history import Arrival, Choice, Exchange, History, Sample, body_key
from loadtests.drills.verdict import Check
from tests.loadtests.drills.made_up import PATH, exchange, history, references, right_answer


def failed(checks: list[Check]) -> list[str]:
    return [check.label.split()[0] for check in checks if not check.passed]


def test_a_faultless_history_passes() -> None:
    answers = [exchange(number, sent_at=number) for number in range(5)]
    right = references(*(exchange(number) for number in range(5)))
    checks = check_history(history(*answers), right)
    assert failed(checks) == []
    assert checks[0].detail == "5 of 5 answered"


# ── I1 ──


def test_a_request_that_never_ended_is_found() -> None:
    one = exchange()
    one.ended_at = None
    assert failed(check_history(history(one), {})) == ["I1"]


def test_a_request_that_ended_twice_is_found() -> None:
    one = exchange()
    one.num_ends, one.num_events_after_end = 2, 1
    assert not_one_end(one) == ["went on after its end: 1 events"]
    two = exchange()
    two.choices[0].finish_reasons = ["length", "stop"]
    assert not_one_end(two) == ["choice 0 ended 2 times"]


def test_a_request_that_was_never_answered_is_found() -> None:
    one = exchange()
    one.failure = "timeout"
    assert failed(check_history(history(one), {})) == ["no", "I1"]


def test_a_failed_request_is_found_unless_it_may_fail() -> None:
    one = exchange(kind="poison")
    one.failure, one.error_code, one.error = "error", "engine_failed", "it died"
    checks = check_history(history(one), {})
    assert failed(checks) == ["no"]
    assert "poison request: error engine_failed: it died" in checks[0].detail
    assert failed(check_history(history(one), {}, lambda e: e.kind == "poison")) == []


# ── I2 ──


@given(st.lists(st.integers(0, 50), min_size=2, max_size=20), st.data())
def test_any_missing_doubled_or_swapped_token_is_found(
    tokens: list[int], data: st.DataObject
) -> None:
    position = data.draw(st.integers(0, len(tokens) - 1))
    harm = data.draw(st.sampled_from(["missing", "doubled", "changed", "swapped"]))
    harmed = list(tokens)
    match harm:
        case "missing":
            del harmed[position]
        case "doubled":
            harmed.insert(position, tokens[position])
        case "changed":
            harmed[position] += 1
        case _:
            harmed[position - 1], harmed[position] = harmed[position], harmed[position - 1]
    right, came = exchange(tokens=tokens), exchange(tokens=harmed)
    assert bool(differences(came, right)) == (harmed != tokens)
    assert differences(exchange(tokens=tokens), right) == []


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20), st.data())
def test_a_failed_request_must_have_got_the_beginning_of_the_answer(
    tokens: list[int], data: st.DataObject
) -> None:
    length = data.draw(st.integers(0, len(tokens)))
    right, cut = exchange(tokens=tokens), exchange(tokens=tokens[:length])
    cut.failure = "broken"
    assert differences(cut, right) == []
    cut.choices[0].token_ids = [51, *tokens][: max(1, length)]
    assert differences(cut, right)


def test_a_changed_text_of_right_tokens_is_found() -> None:
    came = exchange()
    came.choices[0].text = "x" + came.choices[0].text[1:]
    assert differences(came, exchange()) == ["choice 0: the tokens are right, the text is not"]


def test_a_missing_choice_and_a_strange_one_are_found() -> None:
    right = exchange()
    right.choices[1] = Choice("a", [0], 0, ["length"])
    assert differences(exchange(), right) == ["choices [1] are missing"]
    assert differences(right, exchange()) == ["choice 1 should not be there"]


def test_another_finish_reason_and_missing_logprobs_are_found() -> None:
    came = exchange()
    came.choices[0].finish_reasons = ["stop"]
    assert differences(came, exchange()) == ["choice 0 finished by ['stop']"]
    right = exchange()
    right.choices[0].num_logprobs = 8
    assert differences(exchange(), right) == ["choice 0: 0 of 8 logprobs"]


def test_the_answer_to_compare_with_does_not_depend_on_streaming() -> None:
    body = {"prompt": "x", "n": 2}
    assert body_key(PATH, {**body, "stream": True}) == body_key(PATH, {"n": 2, "prompt": "x"})
    assert body_key(PATH, body) != body_key(PATH, {**body, "seed": 1})


# ── I3 ──


@given(st.integers(0, 20), st.integers(0, 20))
def test_a_usage_that_is_not_what_came_is_found(came: int, told: int) -> None:
    one = exchange(tokens=list(range(came)))
    one.completion_tokens = told
    assert bool(wrong_usage(one)) == (came != told)


# ── I5 ──


def with_samples(one: Exchange, *held: tuple[float, int]) -> History:
    seen = history(one)
    seen.samples = [Sample(at, {"engine 0": number}) for at, number in held]
    return seen


def long_answer() -> Exchange:
    return exchange(tokens=list(range(200)))


def test_a_request_that_stays_in_two_engines_is_found() -> None:
    twice = [(at / 2, 2) for at in range(30)]
    assert double_lives(with_samples(long_answer(), *twice))
    once = [(at / 2, 1) for at in range(30)]
    assert double_lives(with_samples(long_answer(), *once)) == []


def test_an_engine_that_is_counted_until_the_verdict_is_no_second_life() -> None:
    short = [(at / 2, 2 if at / 2 < DOUBLE_LIFE_SECONDS else 1) for at in range(30)]
    assert double_lives(with_samples(long_answer(), *short)) == []


@pytest.mark.parametrize(
    ("body", "choices"),
    [
        ({"prompt": "x"}, 1),
        ({"prompt": "x", "n": 3}, 3),
        ({"prompt": ["x", "y"], "n": 2}, 4),
        ({"prompt": [5, 6, 7]}, 1),
        ({"prompt": [[5], [6]]}, 2),
        ({"messages": []}, 1),
    ],
)
def test_choices_are_counted_as_the_api_does(body: dict[str, object], choices: int) -> None:
    one = exchange()
    one.body = body
    assert num_choices(one) == choices


# ── all together ──


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.data())
def test_exactly_the_broken_rule_is_reported(lengths: list[int], data: st.DataObject) -> None:
    answers = [exchange(number, tokens=list(range(n))) for number, n in enumerate(lengths)]
    right = references(*deepcopy(answers))
    victim = data.draw(st.sampled_from(answers))
    harm = data.draw(st.sampled_from(["I1", "I2", "I3"]))
    match harm:
        case "I1":
            victim.ended_at = None
        case "I2":
            changed = [token + 60 for token in victim.choices[0].token_ids]
            victim.choices[0].token_ids = changed
            victim.choices[0].text = right_answer(changed)
        case _:
            victim.completion_tokens = 99
    assert failed(check_history(history(*answers), right)) == [harm]


def test_many_problems_are_listed_in_part() -> None:
    answers = [exchange(number) for number in range(9)]
    for one in answers:
        one.completion_tokens = 1
    check = check_history(history(*answers), {})[3]
    assert check.detail.count("usage says") == 5
    assert check.detail.endswith("and 4 more")


def test_the_longest_gap_is_that_of_one_choice() -> None:
    one = exchange()
    one.arrivals = [Arrival(0.0, 0, 1), Arrival(0.5, 1, 1), Arrival(1.0, 0, 1), Arrival(1.1, 1, 1)]
    assert one.longest_gap_seconds == 1.0
