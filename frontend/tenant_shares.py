"""How many places each tenant holds in engines, and who holds so little that it need not wait for the lead."""

from collections import Counter

SMALL_SHARE = 0.5
"""Of a fair share of all places. Engines keep the last of theirs for tenants below it."""


OTHERS_SHARE = 0.2
"""Of the free places of a queue, what one tenant leaves to others. So one that fills it up to its own
limit does not have others refused."""


def leaves_too_little(own: int, free: int) -> bool:
    """Whether a tenant that has so much in a queue has its share of it already."""
    return own * OTHERS_SHARE > free * (1 - OTHERS_SHARE)


class TenantShares:
    """Counts the requests of each tenant that engines have. This frontend's own; others have as many, it takes.

    An engine starts a request of a tenant that has little before all that waits there of others. So
    whoever holds little is sent at once, however long the lead of an engine is; and that is half of all
    places at most, whoever they are.
    """

    def __init__(self) -> None:
        self._holders: dict[str, str] = {}
        """The tenant of each request that an engine has."""
        self._held: Counter[str] = Counter()
        """By tenant, how many those are; never 0."""

    def take(self, request_id: str, tenant: str) -> None:
        """An engine has this request now."""
        self.release(request_id)
        self._holders[request_id] = tenant
        self._held[tenant] += 1

    def release(self, request_id: str) -> None:
        """No engine has it any more; harmless if none had."""
        tenant = self._holders.pop(request_id, None)
        if tenant is None:
            return
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]

    def holds_little(self, tenant: str, places: float) -> bool:
        """Whether this tenant has less than a small share; `places` are this frontend's share of all.

        Never where nobody is told apart.
        """
        fair_share = places / len(self._held.keys() | {tenant})
        return tenant != "" and self._held[tenant] < SMALL_SHARE * fair_share
