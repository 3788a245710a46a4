"""What one tenant of an engine leaves to others."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.wire.sampling import SamplingParams
from engine.request import Request
from engine.scheduling.tenants import crowded_out, may_take_place, places_held, share_tokens
from tests.support.simulated_engine import SimulatedEngine

PLACES = st.integers(1, 64)
TENANTS = st.sampled_from(["a", "b", "c", "d"])


def may_start(tenant: str, running: list[str], max_num_seqs: int) -> bool:
    """Whether one of this tenant may start beside requests of these."""
    requests = [Request("", 0, 0, [1], 1, SamplingParams(), [], tenant=name) for name in running]
    return may_take_place(tenant, places_held(requests), max_num_seqs)


def fill(tenant: str, running: list[str], max_num_seqs: int) -> None:
    """Start requests of a tenant until it may not, or no place is free."""
    while len(running) < max_num_seqs and may_start(tenant, running, max_num_seqs):
        running.append(tenant)


# ── places ──


@given(st.integers(2, 64), st.lists(TENANTS, min_size=1, max_size=12))
def test_whoever_floods_an_engine_a_newcomer_finds_a_place(
    max_num_seqs: int, floods: list[str]
) -> None:
    running: list[str] = []
    fill(floods[0], running, max_num_seqs)
    assert len(running) < max_num_seqs
    assert may_start("newcomer", running, max_num_seqs)


@given(PLACES, st.lists(st.tuples(TENANTS, st.booleans()), max_size=200))
def test_a_tenant_below_half_its_fair_share_has_every_place_that_is_free(
    max_num_seqs: int, events: list[tuple[str, bool]]
) -> None:
    running: list[str] = []
    for tenant, starts in events:
        if not starts and tenant in running:
            running.remove(tenant)
        elif starts and len(running) < max_num_seqs:
            held, tenants = running.count(tenant), len({*running, tenant})
            is_little = held < max_num_seqs / tenants / 2
            is_started = may_start(tenant, running, max_num_seqs)
            assert is_started or not is_little
            running += [tenant] * is_started


def test_of_a_hundred_places_ten_are_kept_from_a_flood() -> None:
    running: list[str] = []
    fill("flood", running, 100)
    assert len(running) == 90


def test_where_nobody_is_told_apart_all_places_are_used() -> None:
    running: list[str] = []
    fill("", running, 8)
    assert len(running) == 8


def test_an_engine_with_one_place_keeps_none() -> None:
    assert may_take_place("only", places_held([]), 1)


# ── tokens ──


@given(st.dictionaries(TENANTS, st.integers(1, 1000), min_size=1), st.integers(4, 600))
def test_tokens_are_shared_evenly_and_none_is_lost(wanted: dict[str, int], num_tokens: int) -> None:
    shares = share_tokens(wanted, num_tokens)
    assert sum(shares.values()) == min(num_tokens, sum(wanted.values()))
    least_unmet = min((shares[t] for t in wanted if shares[t] < wanted[t]), default=None)
    for tenant, share in shares.items():
        assert share <= wanted[tenant]
        assert least_unmet is None or share <= least_unmet + 1


# ── in steps ──


def tokens_by_name(engine: SimulatedEngine) -> dict[str, int]:
    """What each request gets in the next step."""
    return {run.request.request_id: run.num_tokens for run in engine.step().scheduled}


def test_a_newcomer_starts_in_the_next_step_of_a_flooded_engine() -> None:
    engine = SimulatedEngine(max_num_seqs=4)
    for number in range(8):
        engine.add(f"flood {number}", [1, 2], tenant="flood", max_tokens=20)
    engine.step()
    engine.add("new", [3, 4], tenant="newcomer", max_tokens=20)
    assert tokens_by_name(engine) == {"flood 0": 1, "flood 1": 1, "flood 2": 1, "new": 2}


def test_a_flood_of_a_tenant_that_nobody_is_told_apart_from_takes_all_places() -> None:
    engine = SimulatedEngine(max_num_seqs=4)
    for number in range(8):
        engine.add(f"flood {number}", [1, 2], max_tokens=20)
    assert len(tokens_by_name(engine)) == 4


def test_a_short_prompt_is_computed_beside_a_long_one_of_another_tenant() -> None:
    engine = SimulatedEngine(max_num_batched_tokens=64, prefill_chunk_while_decoding=8)
    engine.add("stream", [1, 2, 3], tenant="loud", max_tokens=20)
    engine.step()
    engine.add("long", range(40), tenant="loud", max_tokens=2)
    engine.add("long too", range(40), tenant="loud", max_tokens=2)
    engine.step()
    engine.add("short", [5, 6, 7], tenant="quiet", max_tokens=2)
    assert tokens_by_name(engine) == {"stream": 1, "long": 5, "short": 3}
    assert tokens_by_name(engine) == {"stream": 1, "short": 1, "long": 8}


def test_long_prompts_of_two_tenants_get_half_of_the_chunk_each() -> None:
    engine = SimulatedEngine(max_num_batched_tokens=64, prefill_chunk_while_decoding=8)
    engine.add("stream", [1, 2, 3], tenant="a", max_tokens=20)
    engine.step()
    engine.add("of a", range(40), tenant="a", max_tokens=2)
    engine.step()
    engine.add("of b", range(40), tenant="b", max_tokens=2)
    for _ in range(3):
        assert tokens_by_name(engine) == {"stream": 1, "of a": 4, "of b": 4}


def test_a_long_prompt_of_who_is_crowded_out_has_all_that_is_left_of_a_step() -> None:
    engine = SimulatedEngine(
        max_num_seqs=4, max_num_batched_tokens=64, prefill_chunk_while_decoding=8
    )
    for number in range(3):
        engine.add(f"flood {number}", [1], tenant="flood", max_tokens=20)
    engine.add("flood 3", range(40), tenant="flood", max_tokens=20)
    engine.step()
    engine.add("new", [7] * 90, tenant="newcomer", max_tokens=20)
    assert tokens_by_name(engine) == {"flood 0": 1, "flood 1": 1, "flood 2": 1, "new": 61}


def test_who_is_crowded_out_leaves_a_flood_its_half_of_the_chunk() -> None:
    engine = SimulatedEngine(
        max_num_seqs=8, max_num_batched_tokens=64, prefill_chunk_while_decoding=8
    )
    for number in range(5):
        engine.add(f"{number}", [1], tenant="flood", max_tokens=20)
    engine.step()
    engine.add("long", range(40), tenant="flood", max_tokens=20)
    engine.add("new", [7] * 90, tenant="newcomer", max_tokens=20)
    assert tokens_by_name(engine) == {**{f"{i}": 1 for i in range(5)}, "long": 4, "new": 55}


def test_with_places_for_everybody_nobody_is_crowded_out() -> None:
    held = Counter({"some": 4, "few": 1})
    assert crowded_out({"few", "new"}, held, max_num_seqs=16) == set()
    assert crowded_out({"few", "new"}, Counter({"some": 9, "few": 1}), 16) == {"few", "new"}
    assert crowded_out({"few", "some"}, Counter({"some": 14}), 16) == {"few"}
    assert crowded_out({"", "few"}, Counter(), 16) == set()


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(TENANTS, st.integers(1, 60), st.integers(1, 6), st.integers(0, 4)), max_size=25
    )
)
def test_all_requests_of_all_tenants_are_answered_as_if_alone(
    asked: list[tuple[str, int, int, int]],
) -> None:
    engine = SimulatedEngine(max_num_seqs=3, prefill_chunk_while_decoding=5)
    for number, (tenant, prompt_tokens, max_tokens, num_steps) in enumerate(asked):
        prompt = [(number + i) % 50 for i in range(prompt_tokens)]
        engine.add(f"{number}", prompt, tenant=tenant, max_tokens=max_tokens)
        for _ in range(num_steps):
            if engine.core.has_work:
                engine.step()
    engine.run()
    for number in range(len(asked)):
        assert engine.answers[f"{number}"].token_ids == engine.expected(f"{number}")


def test_what_is_held_back_goes_on_once_its_tenant_holds_less() -> None:
    engine = SimulatedEngine(max_num_seqs=2)
    for number in range(4):
        engine.add(f"{number}", [1, 2], tenant="only", max_tokens=3)
    engine.run()
    counts = Counter(len(answer.token_ids) for answer in engine.answers.values())
    assert counts == {3: 4}
