from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from loadtests.comparison.policy_order import policy_order

POLICIES = st.lists(st.sampled_from("ABCDEF"), min_size=1, unique=True)


def test_two_policies_take_turns_there_and_back() -> None:
    assert [policy for _, policy in policy_order(["A", "B"], 4)] == list("ABBAABBA")


def test_three_policies_do_so_too() -> None:
    assert [policy for _, policy in policy_order(["A", "B", "C"], 2)] == list("ABCCBA")


@given(policies=POLICIES, rounds=st.integers(1, 6))
def test_every_policy_has_one_turn_in_every_round(policies: list[str], rounds: int) -> None:
    turns = Counter(policy_order(policies, rounds))
    assert turns == Counter({(number, p): 1 for number in range(rounds) for p in policies})


@given(policies=POLICIES, pairs=st.integers(1, 3))
def test_after_an_even_number_of_rounds_all_came_equally_early(
    policies: list[str], pairs: int
) -> None:
    places = Counter[str]()
    for place, (_, policy) in enumerate(policy_order(policies, 2 * pairs)):
        places[policy] += place
    assert len(set(places.values())) == 1
