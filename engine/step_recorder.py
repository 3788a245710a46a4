"""Who is in the steps in flight, kept where it outlives the engine."""

import logging
from collections import deque
from collections.abc import Iterable

from cluster.config import ClusterConfig
from cluster.telemetry.flight_recorder import FlightRecorder, flight_record_path
from cluster.wire.messages import FlightRecord
from engine.scheduling.output import MAX_STEPS_IN_FLIGHT, SchedulerOutput

NOBODY = FlightRecord([])


class StepRecorder:
    """Writes the flight record of one incarnation, as long as there is a file for it.

    Without one the engine goes on: what it says as its last words is known all the same.
    """

    def __init__(self, config: ClusterConfig, rank: int, incarnation: int) -> None:
        self._in_flight: deque[SchedulerOutput] = deque()
        self._recorder: FlightRecorder | None = None
        path = flight_record_path(config.run_directory, rank, incarnation)
        try:
            self._recorder = FlightRecorder(path, MAX_STEPS_IN_FLIGHT * config.engine.max_num_seqs)
        except OSError as error:
            logging.getLogger("engine").warning("there is no flight record: %s", error)
            return
        self._record()

    def began(self, work: SchedulerOutput) -> None:
        """This step is about to be computed, behind those that are in flight."""
        self._in_flight.append(work)
        self._record()

    def ended(self) -> None:
        """The oldest step in flight has ended."""
        self._in_flight.popleft()
        self._record()

    def _record(self) -> None:
        if self._recorder is not None:
            self._recorder.record(flight_of(self._in_flight))

    def failed(self, error: Exception) -> FlightRecord:
        """The steps in which the engine failed; an error that names requests is believed."""
        flight = flight_of(self._in_flight)
        named = getattr(error, "request_ids", None)
        if named:
            flight = FlightRecord(flight.request_ids, list(named))
            if self._recorder is not None:
                self._recorder.record(flight)
        return flight

    def close(self) -> None:
        """Let go of the file, which stays for the launcher to read."""
        if self._recorder is not None:
            self._recorder.close()


def flight_of(steps: Iterable[SchedulerOutput]) -> FlightRecord:
    """Everybody in these steps, each once, and those of them whose context is computed there."""
    runs = [run for work in steps for run in work.scheduled]
    return FlightRecord(
        list(dict.fromkeys(run.request.request_id for run in runs)),
        list(dict.fromkeys(run.request.request_id for run in runs if not run.is_decode)),
    )
