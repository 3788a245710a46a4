"""What is asked in the rounds of a comparison."""

import json

from loadtests.workload import Ask
from tests.loadtests.peers_lab.made_up import LOAD


def prompts(asks: list[Ask]) -> list[tuple[int, ...]]:
    return [tuple(json.loads(ask.body)["prompt"]) for ask in asks]


def test_a_round_asks_every_server_the_same() -> None:
    assert LOAD.asks("tiny", 3) == LOAD.asks("tiny", 3)
    assert prompts(LOAD.asks("tiny", 3)) == prompts(LOAD.asks("other", 3))
    assert [len(prompt) for prompt in prompts(LOAD.asks("tiny", 0))] == [8] * 4


def test_no_prompt_is_asked_twice_and_none_of_a_warm_up_in_a_round() -> None:
    asked = [
        prompt
        for number in range(5)
        for asks in (LOAD.warm_up("tiny", number), LOAD.asks("tiny", number))
        for prompt in prompts(asks)
    ]
    assert len(asked) == 5 * (2 + 4)
    assert len(set(asked)) == len(asked)


def test_another_seed_asks_something_else() -> None:
    assert prompts(LOAD.asks("tiny", 0)) != prompts(LOAD._replace(seed=8).asks("tiny", 0))


def test_answers_of_a_warm_up_are_short() -> None:
    assert {ask.expected_output_tokens for ask in LOAD.warm_up("tiny", 0)} == {3}
    longer = LOAD._replace(output_tokens=128)
    assert {ask.expected_output_tokens for ask in longer.warm_up("tiny", 0)} == {16}
