"""What is drawn without the host is what the host would draw."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.execution.cuda.device_sampler import DeviceSampler
from engine.execution.noise import gumbel_noise, gumbel_noise_of_rows
from engine.execution.sampler import HostSampler
from engine.scheduling.output import ScheduledRequest
from engine.structured.step_masks import NO_MASKS
from tests.support.serving import make_request, whole_run

VOCAB = 300

samplings = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.0, 0.3, 1.0, 2.0]),
        "top_k": st.sampled_from([0, 0, 1, 7, 299, 5000]),
        "top_p": st.sampled_from([1.0, 1.0, 0.9, 0.3, 1e-6, 0.0]),
        "min_p": st.sampled_from([0.0, 0.0, 0.05, 1.0]),
        "seed": st.integers(0, 2**63),
        "choice": st.integers(0, 3),
        "logprobs": st.sampled_from([None, None, 0, 3, 1000]),
        "presence_penalty": st.sampled_from([0.0, 0.0, 0.0, 1.5]),
        "logit_bias": st.sampled_from([[], [], [(5, 100.0)]]),
    }
)


def runs_of(all_sampling: list[dict[str, Any]]) -> list[ScheduledRequest]:
    return [
        whole_run(make_request(range(2 + number), num_prompt_tokens=2, **sampling))
        for number, sampling in enumerate(all_sampling)
    ]


def logits_of(num_rows: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 3.0 * torch.randn((num_rows, VOCAB), generator=generator)


@given(all_sampling=st.lists(samplings, min_size=1, max_size=6), seed=st.integers(0, 1000))
@settings(max_examples=150, deadline=None)
def test_the_same_tokens_are_drawn_and_left_for_the_next_step(
    all_sampling: list[dict[str, Any]], seed: int
) -> None:
    runs, logits = runs_of(all_sampling), logits_of(len(all_sampling), seed)
    drawn = DeviceSampler().draw(logits, runs, NO_MASKS)
    expected = HostSampler().draw(logits, runs, NO_MASKS)
    assert drawn.tokens() == expected.tokens()
    for row, run in enumerate(runs):
        if not (run.request.sampling.presence_penalty or run.request.sampling.logit_bias):
            assert drawn.token_ids[row] == expected.token_ids[row]


def test_greedy_takes_the_lowest_id_among_equals() -> None:
    logits = torch.zeros((1, VOCAB))
    logits[0, [200, 40, 299]] = 1.0
    drawn = DeviceSampler().draw(logits, runs_of([{}]), NO_MASKS)
    assert drawn.token_ids.tolist() == [40]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_finite_fail_their_row_alone(temperature: float) -> None:
    logits = logits_of(3)
    healthy = HostSampler().draw(logits, runs_of([{}] * 3), NO_MASKS).tokens()
    logits[1, 7] = torch.nan
    runs = runs_of([{}, {"temperature": temperature}, {}])
    drawn = DeviceSampler().draw(logits, runs, NO_MASKS)
    first, failed, last = drawn.tokens()
    assert [first, last] == [healthy[0], healthy[2]]
    assert "not finite" in failed.error
    assert 0 <= drawn.token_ids[1] < VOCAB


def test_what_the_host_draws_fails_alone() -> None:
    runs = runs_of([{"allowed_token_ids": [3], "bad_words": [[3]]}, {}])
    failed, good = DeviceSampler().draw(logits_of(2), runs, NO_MASKS).tokens()
    assert "no token is left" in failed.error
    assert good.token_id is not None


def test_the_noise_of_many_rows_is_that_of_each() -> None:
    keys = [(3, 0, 5), (2**70, 1, 0), (0, 0, 0)]
    together = gumbel_noise_of_rows(keys, VOCAB, torch.device("cpu"))
    for row, key in zip(together, keys, strict=True):
        assert torch.equal(row, gumbel_noise(*key, torch.arange(VOCAB)))
