"""Verdicts on the requests of dead engines, also where the cause of a death comes late. Pure."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from cluster.wire.messages import EngineDeath
from frontend.in_flight import InFlight
from frontend.suspicion import EngineKey, Suspicions, Verdict, Victim


class _Loss(NamedTuple):
    in_flight: InFlight
    had_begun: bool
    was_isolated: bool


class Inquest:
    """Has every request judged once for every engine that it has lost.

    A death that was decided here alone has no cause yet: its requests move at once, and are judged
    when the coordinator tells what it was.
    """

    def __init__(self, suspicions: Suspicions) -> None:
        self._suspicions = suspicions
        self._unjudged: dict[EngineKey, list[_Loss]] = {}

    def judge(
        self, death: EngineDeath, lost: Iterable[InFlight], is_unexplained: bool
    ) -> dict[InFlight, Verdict]:
        """A verdict on each request that is lost now, and on those that were lost before the
        cause was known. Must be called before the lost ones get another engine."""
        key = (death.rank, death.incarnation)
        losses = [self._loss(in_flight) for in_flight in lost]
        if is_unexplained:
            self._unjudged[key] = losses
        else:
            losses += self._unjudged.pop(key, [])
        losses = [loss for loss in losses if not loss.in_flight.stream.is_finished]
        verdicts = self._suspicions.judge(death, [_victim(loss) for loss in losses])
        return {loss.in_flight: verdicts[loss.in_flight.request.request_id] for loss in losses}

    def forget_all_but(self, unexplained: Collection[EngineKey]) -> None:
        """Wait for the causes of these deaths only."""
        self._unjudged = {
            key: losses for key, losses in self._unjudged.items() if key in unexplained
        }

    def _loss(self, in_flight: InFlight) -> _Loss:
        return _Loss(
            in_flight,
            had_begun=in_flight.num_output_tokens > in_flight.tokens_at_dispatch,
            was_isolated=self._suspicions.isolated_until(in_flight.request.request_id) > 0,
        )


def _victim(loss: _Loss) -> Victim:
    in_flight, had_begun, was_isolated = loss
    return Victim(
        in_flight.request.request_id, in_flight.num_output_tokens, had_begun, was_isolated
    )
