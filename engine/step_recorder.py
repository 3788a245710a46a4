"""Who is in the step under way, kept where it outlives the engine."""

import logging

from cluster.config import ClusterConfig
from cluster.telemetry.flight_recorder import FlightRecorder, flight_record_path
from cluster.wire.messages import FlightRecord
from engine.scheduling.output import SchedulerOutput

NOBODY = FlightRecord([])


class StepRecorder:
    """Writes the flight record of one incarnation, as long as there is a file for it.

    Without one the engine goes on: what it says as its last words is known all the same.
    """

    def __init__(self, config: ClusterConfig, rank: int, incarnation: int) -> None:
        self._work: SchedulerOutput | None = None
        self._recorder: FlightRecorder | None = None
        path = flight_record_path(config.run_directory, rank, incarnation)
        try:
            self._recorder = FlightRecorder(path, config.engine.max_num_seqs)
        except OSError as error:
            logging.getLogger("engine").warning("there is no flight record: %s", error)
            return
        self._recorder.record(NOBODY)

    def began(self, work: SchedulerOutput) -> None:
        """This step is about to be computed."""
        self._work = work
        if self._recorder is not None:
            self._recorder.record(flight_of(work))

    def ended(self) -> None:
        """Nobody is being computed."""
        self._work = None
        if self._recorder is not None:
            self._recorder.record(NOBODY)

    def failed(self, error: Exception) -> FlightRecord:
        """The step in which the engine failed; an error that names requests is believed."""
        flight = NOBODY if self._work is None else flight_of(self._work)
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


def flight_of(work: SchedulerOutput) -> FlightRecord:
    """Everybody in this step, and those of them whose context is computed in it."""
    return FlightRecord(
        [run.request.request_id for run in work.scheduled],
        [run.request.request_id for run in work.scheduled if not run.request.is_decoding],
    )
