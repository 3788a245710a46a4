"""Which token is drawn, how often, and that nobody else's row matters."""

import itertools
import math
import random
import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.wire.messages import TokenLogprobs
from engine.execution import sampler
from engine.execution.logits import adjust_logits
from engine.execution.noise import gumbel_noise
from engine.execution.sampler import SampledToken
from engine.request import Request
from tests.support.serving import make_request, whole_run

VOCAB = 50


def sample(logits: torch.Tensor, requests: Sequence[Request]) -> list[SampledToken]:
    return sampler.sample(logits, [whole_run(request) for request in requests])


def row_of_logits(seed: int = 0, vocab: int = VOCAB, spread: float = 2.0) -> torch.Tensor:
    return spread * torch.randn(vocab, generator=torch.Generator().manual_seed(seed))


def draw(row: torch.Tensor, **sampling: Any) -> SampledToken:
    return sample(row[None], [make_request([1], **sampling)])[0]


def draws(row: torch.Tensor, count: int, **sampling: Any) -> list[int]:
    """Tokens of many seeds over one row."""
    requests = [make_request([1], **({"temperature": 1.0} | sampling | {"seed": seed}))
                for seed in range(count)]  # fmt: skip
    results = sample(row.expand(count, -1), requests)
    return [result.token_id for result in results if result.token_id is not None]


def chi_square_per_degree(tokens: list[int], probabilities: torch.Tensor) -> float:
    """Near 1 if `tokens` are drawn from `probabilities`; rare tokens are pooled."""
    counts = torch.bincount(torch.tensor(tokens), minlength=len(probabilities)).double()
    expected = probabilities.double() * len(tokens)
    assert counts[expected == 0].sum() == 0
    rare = expected < 5
    observed = torch.cat([counts[~rare], counts[rare].sum()[None]])
    expected = torch.cat([expected[~rare], expected[rare].sum()[None]])
    used = expected > 0
    return float(
        ((observed - expected)[used] ** 2 / expected[used]).sum() / max(1, int(used.sum()) - 1)
    )


# ── greedy ───────────────────────────────────────────────────────────────────────────────────


def test_greedy_takes_the_lowest_id_among_equals() -> None:
    row = torch.zeros(1000)
    row[[700, 300, 999]] = 1.0
    assert draw(row).token_id == 300


@pytest.mark.parametrize("temperature", [0.0, 1e-30, 1e-9, 1e-5, 1e-4])
def test_a_tiny_temperature_is_greedy_and_finite(temperature: float) -> None:
    row = row_of_logits(spread=100.0)
    result = draw(row, temperature=temperature, top_p=0.9, min_p=0.01)
    assert (result.token_id, result.error) == (int(row.argmax()), "")


# ── the distribution ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_by_their_probabilities(temperature: float) -> None:
    row = row_of_logits()
    tokens = draws(row, 4000, temperature=temperature)
    assert chi_square_per_degree(tokens, (row / temperature).softmax(-1)) < 1.8


def test_positions_and_choices_draw_as_independently_as_seeds() -> None:
    row = row_of_logits()
    for varied in ("choice", "position"):
        noise = [
            gumbel_noise(7, **({"choice": 0, "position": 0} | {varied: index}),
                         token_ids=torch.arange(VOCAB))
            for index in range(4000)
        ]  # fmt: skip
        tokens = [int((row + one).argmax()) for one in noise]
        assert chi_square_per_degree(tokens, row.softmax(-1)) < 1.8
        pairs = [(a % 2) * 2 + b % 2 for a, b in itertools.pairwise(tokens)]
        odd = row.softmax(-1)[1::2].sum()
        expected = torch.tensor([(1 - odd) ** 2, odd * (1 - odd), odd * (1 - odd), odd**2])
        assert chi_square_per_degree(pairs, expected) < 5


def test_every_output_position_draws_anew() -> None:
    row = torch.zeros(VOCAB)
    requests = [make_request([1] * (1 + out), 1, temperature=1.0, seed=5) for out in range(200)]
    tokens = [result.token_id for result in sample(row.expand(200, -1), requests)]
    assert len(set(tokens)) > 40


def test_noise_has_the_moments_of_gumbel() -> None:
    noise = gumbel_noise(1, 0, 0, torch.arange(200_000)).double()
    assert noise.mean().item() == pytest.approx(0.5772, abs=0.01)
    assert noise.std().item() == pytest.approx(math.pi / math.sqrt(6), abs=0.01)
    assert noise.isfinite().all()


def mixed(x: int) -> int:
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ x >> shift) * factor & 0xFFFFFFFF
    return x ^ x >> 16


def test_noise_is_the_published_function_of_seed_choice_position_and_token() -> None:
    # A moved stream may meet an engine of another build: this function is part of the protocol.
    token_ids = [0, 1, 17, 49151, 2**31]
    low, high = struct.unpack("<II", blake2b(b"1234/2/56", digest_size=8).digest())
    bits = [mixed(mixed(token ^ low) + high & 0xFFFFFFFF) for token in token_ids]
    by_hand = [-math.log(-math.log1p(-(x + 0.5) / 2**32)) for x in bits]
    assert by_hand[0] == pytest.approx(1.1876453)
    noise = gumbel_noise(1234, 2, 56, torch.tensor(token_ids))
    torch.testing.assert_close(noise, torch.tensor(by_hand))


def test_the_draw_is_the_argmax_over_all_tokens_with_their_noise() -> None:
    for seed in range(300):
        row = row_of_logits(seed, vocab=2000, spread=8.0)
        noisy = row / 0.7 + gumbel_noise(seed, 0, 0, torch.arange(2000))
        assert draw(row, temperature=0.7, seed=seed).token_id == int(noisy.argmax())


def test_top_k_draws_among_the_k_best_only() -> None:
    row = row_of_logits()
    kept = row.topk(5).indices
    exact = torch.zeros(VOCAB)
    exact[kept] = row[kept].softmax(-1)
    assert chi_square_per_degree(draws(row, 3000, top_k=5), exact) < 2.2


@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.9, 0.999])
def test_top_p_draws_among_the_fewest_that_reach_it(top_p: float) -> None:
    row = row_of_logits()
    ordered = row.softmax(-1).sort(descending=True)
    count = int((ordered.values.cumsum(0) < top_p).sum()) + 1
    exact = torch.zeros(VOCAB)
    exact[ordered.indices[:count]] = ordered.values[:count] / ordered.values[:count].sum()
    assert chi_square_per_degree(draws(row, 3000, top_p=top_p), exact) < 2.2


def test_min_p_drops_what_is_far_less_likely_than_the_best() -> None:
    row = row_of_logits()
    probabilities = row.softmax(-1)
    exact = torch.where(probabilities >= 0.2 * probabilities.max(), probabilities, 0.0)
    assert chi_square_per_degree(draws(row, 3000, min_p=0.2), exact / exact.sum()) < 2.2


def test_top_k_top_p_and_min_p_narrow_each_other() -> None:
    row = torch.log(torch.tensor([0.4, 0.3, 0.1, 0.1, 0.06, 0.04]))
    kept = set(draws(row, 500, top_k=4, top_p=0.85, min_p=0.3))
    assert kept == {0, 1}


# ── penalties, biases, bans ──────────────────────────────────────────────────────────────────


def by_the_book(row: list[float], prompt: list[int], output: list[int], presence: float,
                frequency: float, repetition: float) -> list[float]:  # fmt: skip
    adjusted = []
    for token, value in enumerate(row):
        if token in prompt or token in output:
            repeated = value / repetition if value > 0 else value * repetition
        else:
            repeated = value
        penalty = frequency * output.count(token) + presence * (token in output)
        adjusted.append(repeated - penalty)
    return adjusted


@settings(deadline=None)
@given(
    prompt=st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=30),
    output=st.lists(st.integers(0, VOCAB - 1), max_size=30),
    presence=st.floats(-2, 2), frequency=st.floats(-2, 2), repetition=st.floats(0.1, 2),
)  # fmt: skip
def test_penalties_are_those_of_the_definition(
    prompt: list[int], output: list[int], presence: float, frequency: float, repetition: float
) -> None:
    row = row_of_logits()
    request = make_request(
        prompt + output, num_prompt_tokens=len(prompt), presence_penalty=presence,
        frequency_penalty=frequency, repetition_penalty=repetition,
    )  # fmt: skip
    expected = by_the_book(row.tolist(), prompt, output, presence, frequency, repetition)
    torch.testing.assert_close(adjust_logits(row, request), torch.tensor(expected))


def test_a_bias_moves_its_tokens_alone() -> None:
    row = row_of_logits()
    adjusted = adjust_logits(row, make_request([1], logit_bias=[(3, 100.0), (4, -1.5)]))
    expected = row.clone()
    expected[3] += 100.0
    expected[4] -= 1.5
    assert torch.equal(adjusted, expected)


def test_only_allowed_tokens_are_drawn() -> None:
    assert set(draws(row_of_logits(), 200, allowed_token_ids=[3, 8, 9])) == {3, 8, 9}


def test_stop_tokens_wait_until_min_tokens_are_out() -> None:
    row = row_of_logits()
    best, second = row.topk(2).indices.tolist()
    stop = {"stop_token_ids": [best], "min_tokens": 2}
    tokens = [
        sample(row[None], [make_request([1] * (1 + out), num_prompt_tokens=1, **stop)])[0].token_id
        for out in range(4)
    ]
    assert tokens == [second, second, best, best]


@pytest.mark.parametrize(
    ("output", "is_banned"), [([], False), ([7], True), ([8, 7], True), ([7, 8], False)]
)
def test_the_last_token_of_a_bad_word_is_banned_after_the_others(
    output: list[int], is_banned: bool
) -> None:
    row = row_of_logits()
    best = int(row.argmax())
    request = make_request([7, *output], num_prompt_tokens=1, bad_words=[[7, best]])
    assert (adjust_logits(row, request)[best] == -math.inf) == is_banned


def test_a_bad_word_of_one_token_is_always_banned() -> None:
    row = row_of_logits()
    assert draw(row, bad_words=[[int(row.argmax())]]).token_id == row.topk(2).indices[1]


def test_a_request_that_asks_for_nothing_costs_no_copy() -> None:
    row = row_of_logits()
    assert adjust_logits(row, make_request([1], temperature=1.0, top_p=0.5)) is row


# ── log probabilities ────────────────────────────────────────────────────────────────────────


def as_tensors(logprobs: TokenLogprobs) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (-1, logprobs.width)
    ids = torch.frombuffer(bytearray(logprobs.token_ids.data), dtype=torch.int32)
    return ids.view(shape), torch.frombuffer(
        bytearray(logprobs.logprobs.data), dtype=torch.float32
    ).view(shape)


def test_logprobs_are_of_the_raw_logits_the_token_first_and_then_the_best() -> None:
    row = row_of_logits()
    result = draw(row, logprobs=3, temperature=0.5, allowed_token_ids=[20], presence_penalty=1.0)
    assert result.logprobs is not None
    ids, values = as_tensors(result.logprobs)
    assert ids.tolist() == [[20, *row.topk(3).indices.tolist()]]
    torch.testing.assert_close(values[0], row.log_softmax(-1)[ids[0].long()])


def test_logprobs_of_zero_alternatives_are_the_token_alone() -> None:
    result = draw(row_of_logits(), logprobs=0)
    assert result.logprobs is not None
    assert as_tensors(result.logprobs)[0].tolist() == [[result.token_id]]


# ── rows apart ───────────────────────────────────────────────────────────────────────────────

MANNERS: list[dict[str, Any]] = [
    {},
    {"temperature": 1.0},
    {"temperature": 0.7, "top_k": 9, "logprobs": 2},
    {"temperature": 1.3, "top_p": 0.8, "frequency_penalty": 0.4},
    {"temperature": 1.0, "min_p": 0.05, "logit_bias": [(4, 2.0)]},
]


def test_a_row_comes_out_alike_in_any_batch() -> None:
    chance = random.Random(0)
    for trial in range(20):
        rows = [row_of_logits(seed, vocab=1003) for seed in range(7)]
        requests = [
            make_request([1, 2, 3, 4], 2, seed=trial, choice=index, **chance.choice(MANNERS))
            for index in range(7)
        ]
        alone = [
            sample(row[None], [request])[0] for row, request in zip(rows, requests, strict=True)
        ]
        order = chance.sample(range(7), 7)
        together = sample(torch.stack([rows[i] for i in order]), [requests[i] for i in order])
        assert together == [alone[i] for i in order]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_that_is_not_finite_fails_alone(value: float, temperature: float) -> None:
    rows = torch.stack([row_of_logits(0), torch.full((VOCAB,), value), row_of_logits(1)])
    requests = [make_request([1], temperature=temperature, logprobs=1) for _ in range(3)]
    results = sample(rows, requests)
    assert [bool(result.error) for result in results] == [False, True, False]
    assert results[0] == sample(rows[:1], requests[:1])[0]


@pytest.mark.parametrize(
    "sampling",
    [{"logit_bias": [(VOCAB, 1.0)]}, {"logit_bias": [(-1, 1.0)]}, {"allowed_token_ids": [10**9]},
     {"bad_words": [[-3]]}, {"allowed_token_ids": [1], "bad_words": [[1]]}],
)  # fmt: skip
def test_a_request_that_leaves_nothing_to_draw_fails_alone(sampling: dict[str, Any]) -> None:
    row = row_of_logits()
    bad, good = sample(row.expand(2, -1), [make_request([1], **sampling), make_request([1])])
    assert bad.error
    assert good.token_id == int(row.argmax())


# ── containment ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "broken", [{"logit_bias": [(1,)]}, {"bad_words": [None]}, {"logprobs": "many"}, {"top_k": "a"}]
)
def test_an_exception_in_one_row_costs_the_others_nothing(broken: dict[str, Any]) -> None:
    rows = torch.stack([row_of_logits(seed) for seed in range(3)])
    healthy = [make_request([1], temperature=0.9, seed=seed) for seed in range(3)]
    expected = sample(rows, healthy)
    culprit = make_request([1], **({"temperature": 0.9} | broken))
    first, failed, last = sample(rows, [healthy[0], culprit, healthy[2]])
    assert (first, last) == (expected[0], expected[2])
    assert failed.token_id is None
    assert failed.error.startswith("sampling failed: ")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("out of memory"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_what_the_device_cannot_do_is_nobodys_own_error(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> torch.Tensor:
        raise error

    monkeypatch.setattr("engine.execution.sampler.adjust_logits", fail)
    with pytest.raises(type(error)):
        draw(row_of_logits())
