"""A simulated engine, step by step."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtests.simulation.cost_model import CostModel
from loadtests.simulation.engine_model import EngineModel
from loadtests.simulation.engine_request import EngineRequest
from loadtests.simulation.request import ClientRequest

COST = CostModel(
    decode_seconds_per_step=0.01,
    decode_seconds_per_request=0.001,
    decode_seconds_per_kv_token=0.0001,
    prefill_tokens_per_second=1000.0,
    max_num_seqs=4,
    kv_capacity_tokens=400,
    block_size=4,
    max_num_batched_tokens=100,
    prefill_chunk_while_decoding=20,
)


def client_request(name: int, prompt: int, output: int, blocks: str = "") -> ClientRequest:
    hashes = tuple(f"{blocks}{index}".encode() for index in range(prompt // 4)) if blocks else ()
    return ClientRequest(
        request_id=str(name), arrived_at=0.0, prompt_tokens=prompt, output_tokens=output,
        hashes=hashes, num_prompt_hashes=len(hashes),
    )  # fmt: skip


def engine_request(name: int, prompt: int, output: int, blocks: str = "") -> EngineRequest:
    return EngineRequest(client_request(name, prompt, output, blocks), 0, name, (0.0, name), 0)


def step(model: EngineModel) -> tuple[float, list[str], list[str]]:
    """The seconds of the next step, and who began and ended in it."""
    seconds = model.begin_step()
    assert seconds is not None
    began, ended = model.end_step()
    model.check_invariants()
    return seconds, [r.client.request_id for r in began], [r.client.request_id for r in ended]


def run_to_the_end(model: EngineModel) -> dict[str, int]:
    """The step in which each request ended."""
    ends: dict[str, int] = {}
    while model.begin_step() is not None:
        for request in model.end_step().ended:
            ends[request.client.request_id] = model.num_steps
        model.check_invariants()
    return ends


# ── time ──


def test_a_step_takes_what_its_prompts_and_decodes_cost() -> None:
    model = EngineModel(COST)
    model.add(engine_request(1, prompt=50, output=3))
    seconds, began, ended = zip(*(step(model) for _ in range(3)), strict=True)
    assert seconds == pytest.approx(
        (0.01 + 50 / 1000, 0.01 + 0.001 + 51 * 0.0001, 0.01 + 0.001 + 52 * 0.0001)
    )
    assert (began, ended) == ((["1"], [], []), ([], [], ["1"]))
    assert model.begin_step() is None


def test_an_answer_of_one_token_ends_with_its_prompt() -> None:
    model = EngineModel(COST)
    model.add(engine_request(1, prompt=10, output=1))
    assert step(model)[1:] == (["1"], ["1"])
    assert (model.num_running, model.cache.num_used) == (0, 0)


def test_a_long_prompt_takes_steps_of_the_token_budget() -> None:
    model = EngineModel(COST)
    model.add(engine_request(1, prompt=250, output=1))
    seconds = [step(model)[0] for _ in range(3)]
    assert seconds == [pytest.approx(0.01 + tokens / 1000) for tokens in (100, 100, 50)]


def test_while_somebody_decodes_a_step_takes_a_chunk_of_a_prompt() -> None:
    model = EngineModel(COST)
    model.add(engine_request(1, prompt=4, output=10))
    step(model)
    model.add(engine_request(2, prompt=30, output=2))
    assert step(model)[0] == pytest.approx(0.01 + 0.001 + 5 * 0.0001 + 20 / 1000)
    assert model.uncomputed_tokens == 10
    assert step(model)[1] == ["2"]


# ── room ──


def test_no_more_run_than_there_are_slots() -> None:
    model = EngineModel(COST)
    for name in range(6):
        model.add(engine_request(name, prompt=4, output=5))
    step(model)
    assert (model.num_running, model.num_waiting, model.waiting_tokens) == (4, 2, 8)
    ends = run_to_the_end(model)
    assert ends["5"] > ends["0"]


def test_a_full_cache_takes_the_blocks_of_the_youngest_which_computes_again() -> None:
    model = EngineModel(COST)
    model.add(engine_request(1, prompt=180, output=60))
    model.add(engine_request(2, prompt=180, output=60))
    ends = run_to_the_end(model)
    assert model.num_preemptions == 1
    assert ends["2"] > ends["1"]
    assert model.cache.num_used == 0


def test_a_request_of_the_whole_cache_is_served_alone() -> None:
    model = EngineModel(COST)
    model.add(engine_request(1, prompt=300, output=100))
    model.add(engine_request(2, prompt=300, output=100))
    assert run_to_the_end(model).keys() == {"1", "2"}


# ── prefixes ──


def test_a_cached_prefix_need_not_be_computed() -> None:
    model = EngineModel(COST)
    model.add(engine_request(1, prompt=80, output=1, blocks="a"))
    step(model)
    later = engine_request(2, prompt=90, output=2, blocks="a")
    model.add(later)
    assert step(model)[0] == pytest.approx(0.01 + 10 / 1000)
    assert later.cached_tokens == 80


def test_the_last_token_is_always_computed() -> None:
    model = EngineModel(COST)
    model.add(engine_request(1, prompt=80, output=1, blocks="a"))
    step(model)
    again = engine_request(2, prompt=80, output=1, blocks="a")
    model.add(again)
    step(model)
    assert again.cached_tokens == 76


# ── properties ──

REQUESTS = st.lists(
    st.tuples(
        st.integers(1, 200), st.integers(1, 120), st.sampled_from(["", "a", "b"]), st.integers(0, 5)
    ),
    min_size=1,
    max_size=15,
)
"""Prompt tokens, output tokens, prefix, and how many steps go by before the next one comes."""


@settings(max_examples=40, deadline=None)
@given(REQUESTS)
def test_whoever_comes_is_served_to_the_end_and_leaves_nothing(
    requests: list[tuple[int, int, str, int]],
) -> None:
    model = EngineModel(COST)
    ended: list[str] = []

    def take_step() -> bool:
        if model.begin_step() is None:
            return False
        for request in model.end_step().ended:
            assert request.num_outputs == request.client.output_tokens
            ended.append(request.client.request_id)
        model.check_invariants()
        return True

    for name, (prompt, output, blocks, num_steps) in enumerate(requests):
        model.add(engine_request(name, prompt, output, blocks))
        for _ in range(num_steps):
            take_step()
    while take_step():
        pass
    assert sorted(ended) == sorted(str(name) for name in range(len(requests)))
    assert (model.cache.num_used, model.uncomputed_tokens, model.running_tokens) == (0, 0, 0)
