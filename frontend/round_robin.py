"""Whose turn it is among tenants, one of each at a time."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


class RoundRobin(Generic[Item]):
    """What waits: each tenant's in the order of coming, and of all that wait one of each in turn.

    So one that comes anew waits for one of each other tenant at most, however many of theirs there are.
    """

    def __init__(self) -> None:
        self._lines: OrderedDict[str, OrderedDict[Item, None]] = OrderedDict()
        """By tenant, the one whose turn it is first; never empty ones."""
        self._num_waiting = 0

    def __len__(self) -> int:
        return self._num_waiting

    def num_of(self, tenant: str) -> int:
        """How many of this tenant wait."""
        return len(self._lines.get(tenant, ()))

    def join(self, tenant: str, item: Item) -> None:
        """Wait behind all others of the same tenant."""
        self._lines.setdefault(tenant, OrderedDict())[item] = None
        self._num_waiting += 1

    def leave(self, tenant: str, item: Item) -> None:
        """Wait no longer; harmless for what does not."""
        line = self._lines.get(tenant)
        if line is None or item not in line:
            return
        del line[item]
        self._num_waiting -= 1
        if not line:
            del self._lines[tenant]

    def next(self) -> Item | None:
        """Take out what is next, after which it is the other tenants' turn; None if nothing waits."""
        if not self._lines:
            return None
        tenant, line = next(iter(self._lines.items()))
        item = next(iter(line))
        self.leave(tenant, item)
        if tenant in self._lines:
            self._lines.move_to_end(tenant)
        return item
