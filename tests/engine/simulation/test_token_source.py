"""Which tokens a simulated model says, and all that they depend on."""

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.wire.messages import TokenLogprobs
from cluster.wire.sampling import SamplingParams
from engine.request import Request
from engine.scheduling.output import ScheduledRequest
from engine.simulation.token_source import TokenSource

VOCAB_SIZE = 200
WORDS = range(10, 150)


def make_request(prompt: list[int], output: list[int] | None = None, **sampling: Any) -> Request:
    token_ids = prompt + (output or [])
    return Request(
        "r", 0, 0, token_ids, len(prompt), SamplingParams(**({"temperature": 0.0} | sampling)), []
    )


def whole_run(request: Request) -> ScheduledRequest:
    """All that there is of it."""
    return ScheduledRequest(request, 0, request.num_tokens, [])


def generate(request: Request, count: int) -> list[int]:
    """`count` more tokens of this request from an engine that sees it for the first time."""
    source = TokenSource(VOCAB_SIZE, WORDS)
    for _ in range(count):
        request.token_ids.append(source.next_token(whole_run(request))[0])
    return request.output_token_ids


def columns(logprobs: TokenLogprobs | None) -> tuple[list[list[int]], list[list[float]]]:
    assert logprobs is not None
    ids, values = array("i"), array("f")
    ids.frombytes(bytes(logprobs.token_ids.data))
    values.frombytes(bytes(logprobs.logprobs.data))
    starts = range(0, len(ids), logprobs.width)
    return (
        [list(ids[start : start + logprobs.width]) for start in starts],
        [list(values[start : start + logprobs.width]) for start in starts],
    )


@pytest.mark.parametrize("sampling", [{}, {"temperature": 1.0, "seed": 2**70 + 5, "choice": 1}])
@pytest.mark.parametrize("delivered", range(13))
def test_another_engine_goes_on_from_any_position(delivered: int, sampling: dict[str, Any]) -> None:
    whole = generate(make_request([1, 2, 3], **sampling), 12)
    assert generate(make_request([1, 2, 3], whole[:delivered], **sampling), 12 - delivered) == whole


@given(
    st.lists(st.integers(0, 199), min_size=1, max_size=6), st.lists(st.integers(0, 199), max_size=6)
)
def test_only_words_are_said_and_each_token_before_matters(
    prompt: list[int], output: list[int]
) -> None:
    request = make_request(prompt, output)
    told = generate(make_request(prompt, output), 8)[len(output) :]
    assert set(told) <= set(WORDS)
    for changed in (
        make_request(prompt + output[:1], output[1:]) if output else make_request([*prompt, 0]),
        make_request([prompt[0] ^ 1, *prompt[1:]], output),
        make_request(prompt, [*output, 7]),
    ):
        before = changed.num_output_tokens
        assert generate(changed, 8)[before:] != told
    assert request.num_output_tokens == len(output)


@pytest.mark.parametrize("changed", [{"seed": 4}, {"choice": 1}, {"temperature": 0.0}])
def test_seed_and_choice_matter_where_tokens_are_drawn(changed: dict[str, Any]) -> None:
    drawn: dict[str, Any] = {"temperature": 0.7, "seed": 3}
    assert generate(make_request([1, 2], **drawn), 8) != generate(
        make_request([1, 2], **(drawn | changed)), 8
    )
    greedy = make_request([1, 2], seed=3)
    assert generate(greedy, 8) == generate(make_request([1, 2], seed=3, choice=1), 8)


def test_a_strong_bias_forces_a_token_and_another_forbids_it() -> None:
    assert generate(make_request([1], logit_bias=[(199, 100.0)]), 3) == [199] * 3
    free = generate(make_request([1]), 1)[0]
    assert generate(make_request([1], logit_bias=[(free, -100.0)]), 1) != [free]
    assert generate(make_request([1], logit_bias=[(free, 1.0)]), 1) == [free]


def test_only_allowed_tokens_are_said() -> None:
    assert set(generate(make_request([1], allowed_token_ids=[5, 160, 20]), 40)) == {5, 160, 20}
    assert generate(make_request([1], allowed_token_ids=[5], logit_bias=[(9, 100.0)]), 2) == [5, 5]


def test_bad_words_of_one_and_of_several_tokens_are_not_said() -> None:
    free = generate(make_request([1]), 3)
    assert generate(make_request([1], bad_words=[[free[0]]]), 1)[0] != free[0]
    told = generate(make_request([1], bad_words=[[free[0], free[1]]]), 2)
    assert told[0] == free[0]
    assert told[1] != free[1]


def test_stop_tokens_are_held_back_until_the_least_length() -> None:
    free = generate(make_request([1]), 1)[0]
    assert generate(make_request([1], stop_token_ids=[free], min_tokens=1), 1)[0] != free
    assert generate(make_request([1], stop_token_ids=[free]), 1)[0] == free


@pytest.mark.parametrize(
    ("sampling", "complaint"),
    [
        ({"allowed_token_ids": [3], "bad_words": [[3]]}, "no token is left"),
        ({"allowed_token_ids": [200]}, "outside the vocabulary of 200"),
        ({"logit_bias": [(-1, 5.0)]}, "outside the vocabulary of 200"),
    ],
)
def test_limits_that_leave_nothing_are_an_error(sampling: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        generate(make_request([1], **sampling), 1)


@pytest.mark.parametrize("num_best", [0, 3, 1000])
def test_logprobs_have_the_token_first_and_then_the_best(num_best: int) -> None:
    request = make_request([1], logprobs=num_best)
    token_id, logprobs = TokenSource(VOCAB_SIZE, WORDS).next_token(whole_run(request))
    ((ids,), (values,)) = columns(logprobs)
    assert ids[0] == token_id
    assert len(ids) == min(num_best, VOCAB_SIZE) + 1
    assert len(set(ids[1:])) == len(ids) - 1
    assert values[1:] == sorted(values[1:], reverse=True)
    assert all(value < 0 for value in values)
    if num_best:
        assert (ids[1], values[1]) == (token_id, values[0])


def test_prompt_logprobs_are_the_same_in_any_chunks() -> None:
    source = TokenSource(VOCAB_SIZE, WORDS)
    request = make_request([3, 1, 4, 1, 5, 9], [2], prompt_logprobs=2)
    whole = columns(source.prompt_logprobs(request, 1, 8))
    assert [row[0] for row in whole[0]] == [1, 4, 1, 5, 9]
    parts = [columns(source.prompt_logprobs(request, *part)) for part in ((1, 4), (4, 7))]
    assert [row for part in parts for row in part[0]] == whole[0]
    assert [row for part in parts for row in part[1]] == whole[1]
    assert source.prompt_logprobs(request, 6, 8) is None
    assert source.prompt_logprobs(make_request([1, 2]), 1, 2) is None


def test_nothing_is_kept_of_requests_that_are_gone() -> None:
    source = TokenSource(VOCAB_SIZE, WORDS)
    for _ in range(3):
        source.next_token(whole_run(make_request([1])))
    assert len(source._states) == 0
