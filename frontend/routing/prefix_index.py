"""Which prefix blocks an engine holds, as one frontend knows: told by the engine, or sent there."""

from collections.abc import Sequence

from cluster.wire.messages import BlockEvents


class PrefixIndex:
    """The prefix cache of one incarnation of an engine, for estimates of what it need not compute.

    The engine numbers its `BlockEvents` and says the newest number in every report, so whatever
    was missed shows. What is known goes on to count until the engine has told its cache anew:
    a hit that is not there costs some computing, and no answer.
    """

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._known: set[bytes] = set()
        self._events_seq = 0
        """Number of the newest events that were taken in."""
        self._has_gap = False
        self._promises: dict[str, Sequence[bytes]] = {}
        self._promised: dict[bytes, int] = {}
        """By how many of those requests each block is promised."""

    @property
    def num_blocks(self) -> int:
        """How many cached blocks of the engine are known here."""
        return len(self._known)

    # ── what the engine tells ──

    def apply(self, events: BlockEvents) -> None:
        """Take in events of this incarnation; those that are not newer than all before change nothing."""
        if events.events_seq <= self._events_seq:
            return
        if events.cleared:
            self._known.clear()
            self._has_gap = False
        elif events.events_seq != self._events_seq + 1:
            self._has_gap = True
        self._known.update(events.stored)
        self._known.difference_update(events.removed)
        self._events_seq = events.events_seq

    def is_behind(self, events_seq: int) -> bool:
        """Whether something of what the engine has told up to this number is missing here."""
        return self._has_gap or self._events_seq < events_seq

    # ── what this frontend has sent ──

    def promise(self, request_id: str, block_hashes: Sequence[bytes]) -> None:
        """Count the blocks of a request that is sent there: before the next one they are computed."""
        assert request_id not in self._promises, f"{request_id} is promised twice"
        self._promises[request_id] = block_hashes
        for block_hash in block_hashes:
            self._promised[block_hash] = self._promised.get(block_hash, 0) + 1

    def withdraw(self, request_id: str) -> None:
        """The request has ended; of its blocks those count that the engine tells of."""
        for block_hash in self._promises.pop(request_id, ()):
            if self._promised[block_hash] == 1:
                del self._promised[block_hash]
            else:
                self._promised[block_hash] -= 1

    # ── what follows ──

    def hit_tokens(self, block_hashes: Sequence[bytes], likely_tokens: int = 0) -> int:
        """How many tokens the longest chain of leading blocks has that the engine holds.

        By bisection, since an engine evicts the end of a chain before its beginning. It may hold
        an end without the beginning where two requests have computed that at the same time, and
        the one whose blocks were kept has ended first; the answer is then a guess between the two.

        `likely_tokens` is what another engine holds of this chain. Engines that have all served one
        prefix hold equally much of what begins with it, so the end is most often found there.
        """
        known, promised = self._known, self._promised
        likely_end = likely_tokens // self._block_size
        first_looks = [likely_end - 1, likely_end]
        low, high = 0, len(block_hashes)  # what lies before `low` is held, and `high` is not
        while low < high:
            index = first_looks.pop() if first_looks else (low + high) // 2
            if not low <= index < high:
                continue
            if block_hashes[index] in known or block_hashes[index] in promised:
                low = index + 1
            else:
                high = index
        return low * self._block_size
