"""The compiled kernels give a token's logits the same bits whatever surrounds it.

This is what makes a stream that moves to another engine go on exactly: there its context is computed in
other chunks, beside other requests, and its outputs as a prompt.
"""

import random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.execution.runner import ModelRunner
from engine.request import Request
from engine.scheduling.output import ScheduledRequest
from tests.engine.execution.conftest import TinyModel
from tests.engine.execution.test_families import logits_of, prompt
from tests.support.serving import Slot, make_request, make_runner
from tests.support.tiny_model import FAMILIES


def logits_alone(runner: ModelRunner, request: Request, slot: int = 0) -> torch.Tensor:
    return logits_of(runner, [Slot(runner, slot).run(request, 0, request.num_tokens)])


def logits_in_company(
    runner: ModelRunner, request: Request, cuts: list[int], chance: random.Random
) -> torch.Tensor:
    """As `logits_alone`, but in chunks that end at `cuts`, each beside random other work."""
    parts = []
    place = Slot(runner, 1)
    for start, end in zip([0, *cuts], [*cuts, request.num_tokens], strict=True):
        runs = [place.run(request, start, end)]
        for index in range(2, 2 + chance.randrange(6)):
            other = make_request(prompt(chance.randrange(1, 90), seed=index))
            runs.append(Slot(runner, index).run(other, 0, other.num_tokens))
        chance.shuffle(runs)
        logits, row = logits_of(runner, runs), 0
        for run in runs:
            if run.request is request:
                parts.append(logits[row : row + run.num_tokens])
            row += run.num_tokens
    return torch.cat(parts)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("threads", [1, 2])
def test_logits_do_not_depend_on_company_chunks_blocks_or_threads(
    family: str, threads: int, tiny_model: TinyModel
) -> None:
    chance = random.Random(family)
    request = make_request(prompt(201))
    alone = logits_alone(make_runner(tiny_model(family), kv_cache_dtype="float16"), request)
    runner = make_runner(tiny_model(family), kv_cache_dtype="float16", threads_per_engine=threads)
    for num_cuts in (0, 1, 7, 60):
        cuts = sorted(chance.sample(range(1, 201), num_cuts))
        assert torch.equal(logits_in_company(runner, request, cuts, chance), alone), cuts


def test_a_decoded_token_has_the_bits_of_a_prompt_token(tiny_model: TinyModel) -> None:
    runner = make_runner(tiny_model("llama"))
    request = make_request(prompt(150))
    one_by_one = logits_in_company(runner, request, list(range(1, 150)), random.Random(0))
    assert torch.equal(one_by_one, logits_alone(runner, request))


def test_the_block_size_does_not_show(tiny_model: TinyModel) -> None:
    request = make_request(prompt(75))
    logits = [
        logits_alone(make_runner(tiny_model("qwen3"), block_size=block_size), request)
        for block_size in (16, 5)
    ]
    assert torch.equal(logits[0], logits[1])


@pytest.fixture(scope="module")
def llama(tiny_model: TinyModel) -> ModelRunner:
    return make_runner(tiny_model("llama"), kv_cache_dtype="float16")


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_cut_and_any_company_give_the_same_bits(
    llama: ModelRunner, data: st.DataObject
) -> None:
    length = data.draw(st.integers(2, 140))
    cuts = sorted(data.draw(st.sets(st.integers(1, length - 1), max_size=8)))
    request = make_request(prompt(length, seed=length))
    in_company = logits_in_company(
        llama, request, cuts, random.Random(data.draw(st.integers(0, 99)))
    )
    assert torch.equal(in_company, logits_alone(llama, request))


def test_a_prefix_computed_for_another_request_serves_as_well(llama: ModelRunner) -> None:
    first = make_request(prompt(120))
    logits_alone(llama, first)
    second = make_request(first.token_ids[:96] + prompt(30, seed=9))
    own = logits_alone(llama, second, slot=3)
    shared = Slot(llama, 0).block_table[:6] + Slot(llama, 5).block_table[6:]
    on_shared_blocks = logits_of(llama, [ScheduledRequest(second, 96, 30, shared)])
    assert torch.equal(on_shared_blocks, own[96:])
