"""Who holds so little that it need not wait for an engine's lead."""

from hypothesis import given
from hypothesis import strategies as st

from frontend.tenant_shares import TenantShares


def test_alone_a_tenant_holds_little_up_to_half_of_all_places() -> None:
    shares = TenantShares()
    taken = 0
    while shares.holds_little("only", places=16):
        shares.take(str(taken), "only")
        taken += 1
    assert taken == 8


def test_beside_a_flood_it_is_half_of_half() -> None:
    shares = TenantShares()
    for number in range(14):
        shares.take(f"loud {number}", "loud")
    taken = 0
    while shares.holds_little("quiet", places=16):
        shares.take(f"quiet {taken}", "quiet")
        taken += 1
    assert taken == 4
    assert not shares.holds_little("loud", places=16)


def test_one_that_holds_nothing_holds_little_however_many_others_there_are() -> None:
    shares = TenantShares()
    for number in range(100):
        shares.take(str(number), f"tenant {number}")
    assert shares.holds_little("new", places=8)
    assert not shares.holds_little("tenant 1", places=8)


def test_where_nobody_is_told_apart_nobody_holds_little() -> None:
    assert not TenantShares().holds_little("", places=16)


def test_without_engines_nobody_holds_little() -> None:
    assert not TenantShares().holds_little("only", places=0)


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abc"), st.booleans())))
def test_what_is_held_is_what_was_taken_and_not_released(
    events: list[tuple[int, str, bool]],
) -> None:
    shares, holders = TenantShares(), dict[str, str]()
    for number, tenant, is_taken in events:
        if is_taken:
            shares.take(str(number), tenant)
            holders[str(number)] = tenant
        else:
            shares.release(str(number))
            holders.pop(str(number), None)
        held = list(holders.values())
        assert shares._held == {tenant: held.count(tenant) for tenant in held}
