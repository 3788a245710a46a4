"""Which requests may have killed an engine, and which one has. Pure."""

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cluster.wire.messages import EngineDeath

FIRST_WINDOW_TOKENS = 4
"""So many tokens a suspect has to get past the point of the death, computed alone."""
LATER_WINDOW_TOKENS = 64
"""The same after the second death that it was part of."""

EngineKey = tuple[int, int]
"""(rank, incarnation)"""


class Verdict(enum.Enum):
    """What becomes of a request whose engine has died."""

    MOVES = enum.auto()
    IS_SUSPECT = enum.auto()
    """It moves, to be computed alone for a while."""
    FAILS = enum.auto()
    """It was part of too many deaths, and nobody knows whether it caused them."""
    IS_CONVICTED = enum.auto()
    """It was alone with its engine when that failed, and had been suspected before."""


class Victim(NamedTuple):
    """A request that a dead engine had."""

    request_id: str
    num_output_tokens: int
    """What it has of its answer by now."""
    had_begun: bool
    """Whether that engine had got an output of it out."""
    was_isolated: bool
    """Whether it was a suspect then, and so computed in steps of its own."""


class _Step(NamedTuple):
    request_ids: frozenset[str]
    prefill_request_ids: frozenset[str]
    is_recorded: bool
    """Whether the engine itself has said who was there; without that nobody is known to be alone."""


@dataclass(slots=True)
class _Suspicion:
    deaths: set[EngineKey] = field(default_factory=set)
    """Those in whose last step it was, and that nobody else is convicted of."""
    isolated_until: int = 0


class Suspicions:
    """What is held against requests, by the deaths of engines in whose last step they were.

    A death by fault implicates everybody in the step. Who was in prefill there, or was implicated
    before, becomes a suspect: it is computed in steps of its own until it is some tokens past the
    point of the death. Who kills an engine in such a step is convicted, since nobody else was there;
    all others are then acquitted of the deaths that it was part of.
    """

    def __init__(self, max_migrations: int) -> None:
        self._max_migrations = max_migrations
        self._records: dict[str, _Suspicion] = {}

    def __len__(self) -> int:
        return sum(record.isolated_until > 0 for record in self._records.values())

    def isolated_until(self, request_id: str) -> int:
        """The number of output tokens up to which a suspect is on its own; 0 for all others."""
        record = self._records.get(request_id)
        return record.isolated_until if record is not None else 0

    def deaths_of(self, request_id: str) -> set[EngineKey]:
        """The deaths that a request is held to be part of."""
        record = self._records.get(request_id)
        return set(record.deaths) if record is not None else set()

    def judge(self, death: EngineDeath, victims: Sequence[Victim]) -> dict[str, Verdict]:
        """What becomes of each victim. Outside kills are held against nobody."""
        verdicts = {victim.request_id: Verdict.MOVES for victim in victims}
        if not death.fault:
            return verdicts
        step = _last_step(death, victims)
        key = (death.rank, death.incarnation)
        for victim in victims:
            if victim.request_id in step.request_ids:
                verdicts[victim.request_id] = self._implicate(victim, key, step)
        for request_id, verdict in verdicts.items():
            if verdict is Verdict.IS_CONVICTED:
                self.acquit(self.deaths_of(request_id), but=request_id)
        return verdicts

    def _implicate(self, victim: Victim, key: EngineKey, step: _Step) -> Verdict:
        record = self._records.setdefault(victim.request_id, _Suspicion())
        record.deaths.add(key)
        was_alone = step.is_recorded and len(step.request_ids) == 1
        if victim.was_isolated and was_alone:
            return Verdict.IS_CONVICTED
        num_deaths = len(record.deaths)
        if num_deaths > self._max_migrations and not self._is_another_on_trial(record):
            return Verdict.FAILS
        if num_deaths > 1 or victim.request_id in step.prefill_request_ids:
            window = FIRST_WINDOW_TOKENS if num_deaths == 1 else LATER_WINDOW_TOKENS
            record.isolated_until = victim.num_output_tokens + window
            return Verdict.IS_SUSPECT
        return Verdict.MOVES

    def _is_another_on_trial(self, record: _Suspicion) -> bool:
        """Whether someone else may yet be convicted of a death that is held against this one."""
        return record.isolated_until == 0 and any(
            other.isolated_until and not other.deaths.isdisjoint(record.deaths)
            for other in self._records.values()
            if other is not record
        )

    def clear(self, request_id: str, num_output_tokens: int) -> bool:
        """Whether the request was a suspect, and is none any longer: it has got so far alone."""
        record = self._records.get(request_id)
        if record is None or not 0 < record.isolated_until <= num_output_tokens:
            return False
        record.isolated_until = 0
        return True

    def acquit(self, deaths: Iterable[EngineKey], but: str = "") -> None:
        """Hold these deaths against nobody any longer: who caused them is known."""
        explained = set(deaths)
        for request_id, record in list(self._records.items()):
            if request_id == but or record.deaths.isdisjoint(explained):
                continue
            record.deaths -= explained
            if not record.deaths:
                del self._records[request_id]

    def forget(self, request_id: str) -> None:
        """The request has ended."""
        self._records.pop(request_id, None)


def _last_step(death: EngineDeath, victims: Sequence[Victim]) -> _Step:
    """Who was in the step that failed; where nobody can say, everybody that the engine had."""
    flight = death.flight
    if flight is not None and flight.request_ids:
        request_ids, in_prefill = flight.request_ids, flight.prefill_request_ids
        return _Step(frozenset(request_ids), frozenset(in_prefill), is_recorded=True)
    everybody = frozenset(victim.request_id for victim in victims)
    # A record that names nobody tells that the engine failed between two steps.
    in_prefill = [v.request_id for v in victims if not v.had_begun] if flight is None else []
    return _Step(everybody, frozenset(in_prefill), is_recorded=False)
