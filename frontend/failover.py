"""Lets the requests of dead engines go on elsewhere, but for those that are to blame."""

import logging
import time
from collections.abc import Mapping, Sequence

from cluster.config import FrontendConfig
from cluster.wire.messages import EngineDeath
from frontend.convictions import Convictions
from frontend.in_flight import InFlight
from frontend.inquest import Inquest
from frontend.metrics import FrontendMetrics
from frontend.request_table import RequestTable
from frontend.suspicion import EngineKey, Suspicions, Verdict


class Failover:
    """Carries out what is decided on the requests that have lost their engine."""

    def __init__(
        self,
        settings: FrontendConfig,
        requests: RequestTable,
        suspicions: Suspicions,
        convictions: Convictions,
        metrics: FrontendMetrics,
    ) -> None:
        self._settings = settings
        self._requests = requests
        self._suspicions = suspicions
        self._convictions = convictions
        self._metrics = metrics
        self._inquest = Inquest(suspicions)
        self._logger = logging.getLogger("frontend.failover")

    def on_death(
        self, death: EngineDeath, lost: Sequence[InFlight], unexplained: Mapping[EngineKey, float]
    ) -> None:
        """Move what the engine had; end what is known, or too likely, to have killed it."""
        self._logger.log(
            logging.WARNING if lost else logging.DEBUG,
            "engine %d.%d is gone (%s): %d requests move",
            death.rank, death.incarnation, death.cause, len(lost),
        )  # fmt: skip
        verdicts = self._inquest.judge(
            death, lost, is_unexplained=(death.rank, death.incarnation) in unexplained
        )
        self._inquest.forget_all_but(unexplained)
        self._lose(lost, death.cause, verdicts)

    def on_skipped_tokens(self, in_flight: InFlight) -> None:
        """Ask for what an engine has left out again, though not for ever."""
        in_flight.num_skips += 1
        self._lose([in_flight], "skipped tokens", {})

    def _lose(
        self, lost: Sequence[InFlight], cause: str, verdicts: Mapping[InFlight, Verdict]
    ) -> None:
        now = time.monotonic()
        for in_flight in lost:
            in_flight.assign(None)
            in_flight.queued_at = now
        for in_flight, verdict in verdicts.items():
            self._carry_out(verdict, in_flight, cause, now)
        moving = [in_flight for in_flight in lost if not in_flight.stream.is_finished]
        for in_flight in list(moving):
            error = self._reason_to_stay(in_flight, cause)
            if error is not None:
                self._requests.fail(in_flight, error)
                moving.remove(in_flight)
            else:
                in_flight.note_move(cause, self._metrics)
        self._requests.put_back(moving)

    def _carry_out(self, verdict: Verdict, in_flight: InFlight, cause: str, now: float) -> None:
        match verdict:
            case Verdict.MOVES:
                pass
            case Verdict.IS_SUSPECT:
                self._metrics.suspected()
            case Verdict.FAILS:
                self._requests.fail(in_flight, _failed(cause))
            case Verdict.IS_CONVICTED:
                deaths = self._suspicions.deaths_of(in_flight.request.request_id)
                self._convictions.convict(in_flight.request, deaths, now)
                self._metrics.convicted()
                self._logger.warning(
                    "%s has ended %d engines, and was alone with the last one (%s)",
                    in_flight.request.request_id, len(deaths), cause,
                )  # fmt: skip
                self._requests.fail(
                    in_flight, f"this request has ended the engines that served it ({cause})"
                )

    def _reason_to_stay(self, in_flight: InFlight, cause: str) -> str | None:
        """The error of a request that cannot go on in another engine; None if it can."""
        if in_flight.num_skips > self._settings.max_migrations:
            return _failed(cause)
        if not in_flight.is_lost_with_its_engine:
            return None
        num_tokens = len(in_flight.request.prompt_token_ids) + in_flight.request.sampling.max_tokens
        return (
            f"the engine that served this request failed ({cause}), and no other can go on with it:"
            f" prompt and max_tokens are {num_tokens} tokens, more than max_resumable_tokens"
            f" ({self._settings.max_resumable_tokens})"
        )


def _failed(cause: str) -> str:
    return f"the engines that served this request failed ({cause})"
