"""What one frontend knows of one engine's load: exact about its own requests, however old the report."""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from cluster.wire.messages import EngineHello, LoadReport
from frontend.routing.prefix_index import PrefixIndex
from frontend.routing.resync_timer import ResyncTimer

LEAST_LEAD_REQUESTS, LEAST_LEAD_SHARE = 4, 1 / 8
LEAD_STEPS = 3
"""What may wait in an engine beyond those that it runs: as many as it ends in so many steps. In two of
them a report comes here and a request goes back; the third is for what differs from step to step. At
least four, where those are a small share of what it runs: what waits there waits behind all others,
whoever's turn it would be here."""
NEW_STEP_SHARE = 0.1
"""What a step's ended requests count in the mean. Many that end at once are no reason for a long lead:
their places are free a step later, and a lead as long would make a tenant whose turn it is wait for
as many answers of others."""
LEAD_SECONDS = 0.1
"""What may be uncomputed in an engine before its lead is all that it gets."""
STALE_REPORT_SECONDS = 1.0
"""A report older than this tells no longer that an engine is full: it holds nobody back."""


class Charge(NamedTuple):
    """What requests add to an engine's load, or take from it."""

    requests: int = 0
    uncomputed_tokens: int = 0
    prompt_tokens: int = 0

    def plus(self, other: "Charge") -> "Charge":
        """The sum, field by field."""
        return Charge(
            self.requests + other.requests,
            self.uncomputed_tokens + other.uncomputed_tokens,
            self.prompt_tokens + other.prompt_tokens,
        )

    def minus(self, other: "Charge") -> "Charge":
        """The difference, field by field."""
        return Charge(
            self.requests - other.requests,
            self.uncomputed_tokens - other.uncomputed_tokens,
            self.prompt_tokens - other.prompt_tokens,
        )


class Ledger:
    """Charges by rising `dispatch_seq`, and their sum: a choice must not cost more the more wait."""

    def __init__(self) -> None:
        self.total = Charge()
        self._entries: dict[int, Charge] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, seq: int, charge: Charge) -> None:
        """Enter a charge; `seq` is higher than all before."""
        self._entries[seq] = charge
        self.total = self.total.plus(charge)

    def remove(self, seq: int) -> None:
        """Take one entry out."""
        self.total = self.total.minus(self._entries.pop(seq))

    def forget_until(self, acknowledged: int) -> None:
        """Take out the entries up to this one: a report has them now."""
        while self._entries and (seq := next(iter(self._entries))) <= acknowledged:
            self.remove(seq)


class EngineLoad(NamedTuple):
    """An engine as the balancer sees it at one instant."""

    rank: int
    report: LoadReport | None
    report_age_seconds: float
    """Infinite while there is no report."""
    sent: Charge
    """Own requests that the report does not count yet."""
    withdrawn: Charge
    """Own requests that the report still counts, though they were aborted since."""
    capacity_tokens: int
    in_flight: int = 0
    """Own requests that it has now, whatever the report counts."""
    known_seconds: float = float("inf")
    """For how long this incarnation has served here."""


class EngineBook:
    """The books that a frontend keeps of one incarnation of an engine.

    Each dispatch and each abort gets the next `dispatch_seq`. A report names the highest that it
    includes, so load = report + what was sent after that - what was aborted after that. Nothing is
    counted twice and nothing forgotten, in whatever order or however late reports come. A request
    that the engine ends itself needs no entry: the report that travels with its last output has it.
    """

    def __init__(
        self, hello: EngineHello, frontend: tuple[int, int], known_since: float = float("-inf")
    ) -> None:
        self.hello = hello
        self.rank = hello.rank
        self.incarnation = hello.incarnation
        self.report: LoadReport | None = None
        self.heard_at = float("-inf")
        """When the newest report was made, on our clock."""
        self.disconnected_at: float | None = None
        self.prefix = PrefixIndex(hello.block_size)
        self._resync = ResyncTimer()
        self._known_since = known_since
        self._frontend = frontend
        self._last_seq = 0
        self._sent = Ledger()
        self._withdrawn = Ledger()
        self._charges: dict[str, Charge] = {}
        self._aborts: dict[str, int] = {}
        """By request: the `dispatch_seq` of aborts that no report includes yet, rising."""
        self._unbegun: set[str] = set()
        """Own requests that this engine has, and has sent no token of."""
        self._turnover, self._num_steps = 0.0, 0
        self._ended, self._ended_before = 0, 0
        """Own requests that ended from one step's report to the next: on average, and up to now."""

    @property
    def in_flight(self) -> int:
        """Own requests that this engine has now."""
        return len(self._charges)

    @property
    def unacknowledged(self) -> int:
        """Own requests that the newest report does not count yet."""
        return len(self._sent)

    def dispatch(
        self,
        request_id: str,
        context_tokens: int,
        block_hashes: Sequence[bytes] = (),
        hit_tokens: int = 0,
    ) -> int:
        """Enter a request that is being sent, and return its `dispatch_seq`.

        `hit_tokens` of its context are expected in the engine's cache; its last token never is.
        """
        self._last_seq += 1
        charge = Charge(1, max(1, context_tokens - hit_tokens), context_tokens)
        self.prefix.promise(request_id, block_hashes)
        self._charges[request_id] = charge
        self._unbegun.add(request_id)
        self._sent.add(self._last_seq, charge)
        return self._last_seq

    def undo_dispatch(self, request_id: str) -> None:
        """Take back the newest dispatch: the socket did not take it."""
        self.prefix.withdraw(request_id)
        del self._charges[request_id]
        self._unbegun.remove(request_id)
        self._sent.remove(self._last_seq)
        self._last_seq -= 1

    def withdraw(self, request_id: str, has_begun: bool) -> int:
        """Enter the abort of a request, and return its `dispatch_seq`."""
        self._last_seq += 1
        self.prefix.withdraw(request_id)
        charge = self._charges.pop(request_id)
        self._unbegun.discard(request_id)
        if has_begun:
            charge = charge._replace(uncomputed_tokens=0)
        self._withdrawn.add(self._last_seq, charge)
        self._aborts.pop(request_id, None)  # to rise, it goes to the end
        self._aborts[request_id] = self._last_seq
        return self._last_seq

    def begin(self, request_id: str) -> None:
        """Note that the engine computes a request: outputs of it have come."""
        self._unbegun.discard(request_id)

    def settle(self, request_id: str) -> None:
        """Close the entry of a request that the engine has ended."""
        self.prefix.withdraw(request_id)
        self._charges.pop(request_id, None)
        self._unbegun.discard(request_id)
        self._ended += 1

    def settle_aborted(self, request_id: str) -> None:
        """Close the entry of an abort that came too late: the engine has ended the request itself."""
        seq = self._aborts.pop(request_id, None)
        if seq is not None:
            self._withdrawn.remove(seq)

    def accept(self, report: LoadReport, made_at: float) -> None:
        """Take in a report of this incarnation; an older one than the newest changes nothing."""
        if self.report is not None and report.report_seq < self.report.report_seq:
            return
        is_new_step = self.report is None or report.step > self.report.step
        if is_new_step:
            self._num_steps += 1
            share = max(NEW_STEP_SHARE, 1 / self._num_steps)
            # Of two steps the larger: large and small steps that take turns keep each other so.
            self._turnover += share * (max(self._ended, self._ended_before) - self._turnover)
            self._ended_before, self._ended = self._ended, 0
        self.report = report
        self.heard_at = max(self.heard_at, made_at)
        for index, incarnation, acknowledged in report.acknowledged:
            if (index, incarnation) == self._frontend:
                self._sent.forget_until(acknowledged)
                self._withdrawn.forget_until(acknowledged)
                while self._aborts and next(iter(self._aborts.values())) <= acknowledged:
                    del self._aborts[next(iter(self._aborts))]

    def has_room(self, num_frontends: int, now: float, has_begun: bool = False) -> bool:
        """Whether it would soon run one more request, besides those that others may be sending.

        One that has begun elsewhere needs no more than a place: it is not to wait here for the lead
        to be computed, and the engine takes it before what is new.
        """
        most = self.hello.max_num_seqs
        least = max(1, min(LEAST_LEAD_REQUESTS, int(LEAST_LEAD_SHARE * most)))
        lead = max(least, ceil(LEAD_STEPS * min(most, num_frontends * self._turnover)))
        if self.report is None:
            return len(self._charges) < min(LEAST_LEAD_REQUESTS, most)
        if now - self.heard_at > STALE_REPORT_SECONDS:
            return len(self._charges) < most + lead
        if not self._unbegun:
            # One of each frontend may always wait there. Else those that hear first of a free place
            # would have them all, and a tenant whose turn it is here would see others pass there.
            return True
        waiting, running = self.report.waiting, self.report.running
        unseen = num_frontends * self._sent.total.requests - self._withdrawn.total.requests
        requests = waiting + running + unseen
        if requests >= most + lead:
            return False
        if has_begun and requests < most:
            return True
        if requests < most:  # it is not for a place that they would wait
            lead = max(lead, LEAST_LEAD_REQUESTS)
        if waiting + unseen < lead:
            return True
        # It has its lead. More than that would only wait, and behind all others, where memory is
        # short, as it is if requests wait though they could run, or where prompts take their time.
        return (
            requests < most and not waiting and self._is_soon_computed(num_frontends, self.report)
        )

    def _is_soon_computed(self, num_frontends: int, report: LoadReport) -> bool:
        uncomputed = num_frontends * self._sent.total.uncomputed_tokens
        uncomputed += report.waiting_prompt_tokens - self._withdrawn.total.uncomputed_tokens
        return uncomputed <= LEAD_SECONDS * report.prefill_tokens_per_second

    def load(self, now: float) -> EngineLoad:
        """The engine's load now."""
        return EngineLoad(
            self.rank,
            self.report,
            now - self.heard_at,
            sent=self._sent.total,
            withdrawn=self._withdrawn.total,
            capacity_tokens=self.hello.num_blocks * self.hello.block_size,
            in_flight=self.in_flight,
            known_seconds=now - self._known_since,
        )

    def is_resync_due(self, now: float) -> bool:
        """Whether to ask the engine for its whole cache: something that it told has not come here."""
        return self.report is not None and self._resync.is_due(
            self.prefix, self.report.events_seq, now
        )

    def note_resync_asked(self, now: float) -> None:
        """It was asked."""
        self._resync.note_asked(now)


def hits_by_rank(books: Sequence[EngineBook], block_hashes: Sequence[bytes]) -> dict[int, int]:
    """How many leading tokens of a prompt each engine's cache holds. One's answer hints at the next's."""
    hits, last_hit_tokens = {}, 0
    for book in books:
        last_hit_tokens = book.prefix.hit_tokens(block_hashes, likely_tokens=last_hit_tokens)
        hits[book.rank] = last_hit_tokens
    return hits
