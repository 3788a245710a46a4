"""What one frontend knows of one engine's load: exact about its own requests, however old the report."""

from typing import NamedTuple

from cluster.wire.messages import EngineHello, LoadReport


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


class EngineBook:
    """The books that a frontend keeps of one incarnation of an engine.

    Each dispatch and each abort gets the next `dispatch_seq`. A report names the highest that it
    includes, so load = report + what was sent after that - what was aborted after that. Nothing is
    counted twice and nothing forgotten, in whatever order or however late reports come. A request
    that the engine ends itself needs no entry: the report that travels with its last output has it.
    """

    def __init__(self, hello: EngineHello, frontend: tuple[int, int]) -> None:
        self.hello = hello
        self.rank = hello.rank
        self.incarnation = hello.incarnation
        self.report: LoadReport | None = None
        self.heard_at = float("-inf")
        """When the newest report was made, on our clock."""
        self.disconnected_at: float | None = None
        self._frontend = frontend
        self._last_seq = 0
        self._sent = Ledger()
        self._withdrawn = Ledger()
        self._charges: dict[str, Charge] = {}

    @property
    def in_flight(self) -> int:
        """Own requests that this engine has now."""
        return len(self._charges)

    @property
    def unacknowledged(self) -> int:
        """Own requests that the newest report does not count yet."""
        return len(self._sent)

    def dispatch(self, request_id: str, prompt_tokens: int) -> int:
        """Enter a request that is being sent, and return its `dispatch_seq`."""
        self._last_seq += 1
        charge = Charge(1, prompt_tokens, prompt_tokens)
        self._charges[request_id] = charge
        self._sent.add(self._last_seq, charge)
        return self._last_seq

    def undo_dispatch(self, request_id: str) -> None:
        """Take back the newest dispatch: the socket did not take it."""
        del self._charges[request_id]
        self._sent.remove(self._last_seq)
        self._last_seq -= 1

    def withdraw(self, request_id: str, has_begun: bool) -> int:
        """Enter the abort of a request, and return its `dispatch_seq`."""
        self._last_seq += 1
        charge = self._charges.pop(request_id)
        if has_begun:
            charge = charge._replace(uncomputed_tokens=0)
        self._withdrawn.add(self._last_seq, charge)
        return self._last_seq

    def settle(self, request_id: str) -> None:
        """Close the entry of a request that the engine has ended."""
        self._charges.pop(request_id, None)

    def accept(self, report: LoadReport, made_at: float) -> None:
        """Take in a report of this incarnation; an older one than the newest changes nothing."""
        if self.report is not None and report.report_seq < self.report.report_seq:
            return
        self.report = report
        self.heard_at = max(self.heard_at, made_at)
        for index, incarnation, acknowledged in report.acknowledged:
            if (index, incarnation) == self._frontend:
                self._sent.forget_until(acknowledged)
                self._withdrawn.forget_until(acknowledged)

    def load(self, now: float) -> EngineLoad:
        """The engine's load now."""
        return EngineLoad(
            self.rank,
            self.report,
            now - self.heard_at,
            sent=self._sent.total,
            withdrawn=self._withdrawn.total,
            capacity_tokens=self.hello.num_blocks * self.hello.block_size,
        )
