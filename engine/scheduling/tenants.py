"""What one tenant leaves to others: the last places of an engine, and an even share of prompt tokens."""

from collections import Counter
from collections.abc import Iterable, Mapping, Set

from engine.request import Request

RESERVED_SHARE = 0.1
"""Of all places; one at least, unless there is but one."""
SMALL_SHARE = 0.5
"""Whoever has less than this part of a fair share of the places may take the last ones too."""


def places_held(running: Iterable[Request]) -> Counter[str]:
    """By tenant, how many places it holds."""
    return Counter(request.tenant for request in running)


def give_place_back(tenant: str, held: Counter[str]) -> None:
    """One of the tenant's places is free; who holds none is not counted."""
    held[tenant] -= 1
    if not held[tenant]:
        del held[tenant]


def may_take_place(tenant: str, held: Counter[str], max_num_seqs: int) -> bool:
    """Whether a request of this tenant may start beside those that hold places. Room for it there is.

    The last places are for tenants that have little, so that one that comes finds a place at once,
    whoever else floods the engine. Nobody starves: up to half of its fair share a tenant has all
    places like anybody else. Requests without a tenant are held back by nothing.
    """
    reserved = min(max_num_seqs - 1, max(1, round(RESERVED_SHARE * max_num_seqs)))
    if not tenant or held.total() < max_num_seqs - reserved:
        return True
    return has_little(tenant, held, max_num_seqs)


def has_little(tenant: str, held: Counter[str], max_num_seqs: int) -> bool:
    """Whether a tenant is far below its fair share of the places. Never where nobody is told apart."""
    fair_share = max_num_seqs / len(held.keys() | {tenant})
    return tenant != "" and held[tenant] < SMALL_SHARE * fair_share


def crowding(held: Counter[str], max_num_seqs: int) -> frozenset[str]:
    """The tenants that have more than a fair share while others have some, or may come."""
    return frozenset(
        tenant
        for tenant, number in held.items()
        if tenant and number > max_num_seqs / max(2, len(held))
    )


def crowded_out(tenants: Set[str], held: Counter[str], max_num_seqs: int) -> set[str]:
    """Those of these that have next to nothing, while somebody has more than a fair share."""
    if not crowding(held, max_num_seqs):
        return set()
    return {tenant for tenant in tenants if has_little(tenant, held, max_num_seqs)}


def wanted_tokens(
    waiting_tokens: Mapping[str, int],
    contexts: Iterable[Request],
    held: Counter[str],
    max_num_seqs: int,
) -> dict[str, int]:
    """By tenant: what is to be computed of new prompts, those that are begun (among these contexts) and
    those that wait. Who may start nothing wants nothing."""
    wanted = Counter(
        {
            tenant: num_tokens
            for tenant, num_tokens in waiting_tokens.items()
            if may_take_place(tenant, held, max_num_seqs)
        }
    )
    for request in contexts:
        if not request.has_begun:
            wanted[request.tenant] += request.num_tokens_to_schedule
    return wanted


def share_tokens(wanted: Mapping[str, int], num_tokens: int) -> dict[str, int]:
    """An even share of so many tokens for each tenant; what one does not want goes to the others."""
    shares: dict[str, int] = {}
    for index, tenant in enumerate(sorted(wanted, key=lambda name: (wanted[name], name))):
        shares[tenant] = min(wanted[tenant], num_tokens // (len(wanted) - index))
        num_tokens -= shares[tenant]
    return shares
