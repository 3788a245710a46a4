"""The coordinator's shell: reports in by PULL, cluster views out by XPUB."""

import logging
import time

import zmq

from cluster.config import ClusterConfig
from cluster.errors import DecodeError, ProtocolMismatch
from cluster.telemetry.flight_recorder import flight_record_path, read_flight_record
from cluster.telemetry.logs import RateLimited
from cluster.telemetry.metrics import counter
from cluster.wire.codec import Decoder, Encoder, check_protocol_version
from cluster.wire.endpoints import BLOCKS_TOPIC, VIEW_TOPIC, Endpoints
from cluster.wire.messages import (
    BlockEvents,
    EngineEntry,
    EngineState,
    FrontendHello,
    ToCoordinator,
)
from cluster.wire.sockets import Context, bind_pull, bind_xpub, receive_all, try_send
from coordinator.cluster_state import ClusterState

IDLE_PUBLISH_SECONDS = 0.5
"""Views are repeated this often when nothing happens, so that silence means a dead coordinator."""


class Coordinator:
    """Gathers what engines, frontends and the launcher report, and publishes one view of it all.

    Why it exists: N engines and M frontends would otherwise need N × M links for load, and no two
    frontends would agree on who is dead. Why it may die: it is never on the path of a request, it
    keeps nothing that is not reported again within half a second, and frontends know from their
    own outputs how busy the engines are.
    """

    def __init__(self, config: ClusterConfig, incarnation: int, context: Context) -> None:
        """Must be made with the metrics of this process joined."""
        endpoints = Endpoints(config.run_directory)
        self._publish_interval = config.coordinator.publish_interval
        self._state = ClusterState(
            config.coordinator,
            incarnation,
            time.monotonic(),
            lambda rank, number: read_flight_record(
                flight_record_path(config.run_directory, rank, number)
            ),
        )
        self._reports = bind_pull(context, endpoints.reports)
        self._views = bind_xpub(context, endpoints.view)
        self._encoder = Encoder()
        self._decoder: Decoder[ToCoordinator] = Decoder(ToCoordinator)
        self._bad_frames = counter("wire_bad_frames").labels("coordinator")
        self._logger = logging.getLogger("coordinator")
        self._complaints = RateLimited(self._logger)
        self._published_at = 0.0
        self._suspects: set[int] = set()
        self._is_stopping = False

    def stop(self) -> None:
        """End `run` at its next turn. Safe in a signal handler."""
        self._is_stopping = True

    def run(self) -> None:
        """Serve until `stop`."""
        poller = zmq.Poller()
        poller.register(self._reports, zmq.POLLIN)
        poller.register(self._views, zmq.POLLIN)
        while not self._is_stopping:
            poller.poll(round(self._publish_interval * 1000))
            now = time.monotonic()
            self._take_reports(now)
            has_subscriber = bool(receive_all(self._views))
            self._state.expire(now)
            if has_subscriber or self._is_due(now):
                self._publish(now)
        self.close()

    def close(self) -> None:
        """Release the sockets."""
        self._reports.close()
        self._views.close()

    def _is_due(self, now: float) -> bool:
        age = now - self._published_at
        return (
            self._state.is_urgent
            or (self._state.is_changed and age >= self._publish_interval)
            or age >= IDLE_PUBLISH_SECONDS
        )

    def _take_reports(self, now: float) -> None:
        for frames in receive_all(self._reports):
            try:
                message = self._decoder.decode(frames)
                if isinstance(message, FrontendHello):
                    check_protocol_version(message.protocol_version, f"frontend {message.index}")
            except (DecodeError, ProtocolMismatch) as error:
                self._bad_frames.inc()
                self._complaints.warning("bad frame", "dropped a bad frame: %s", error)
                continue
            if isinstance(message, BlockEvents) and self._state.are_to_be_relayed(message):
                try_send(self._views, [BLOCKS_TOPIC, *frames])
            self._state.apply(message, now)

    def _publish(self, now: float) -> None:
        view = self._state.view(now)
        self._published_at = now
        try_send(self._views, [VIEW_TOPIC, *self._encoder.encode(view)])
        for engine in view.engines:
            self._log_suspicion(engine)

    def _log_suspicion(self, entry: EngineEntry) -> None:
        """Say who has fallen silent, and who is back; starts and deaths the launcher tells."""
        is_suspect = entry.state is EngineState.SUSPECT
        if is_suspect == (entry.rank in self._suspects):
            return
        self._suspects ^= {entry.rank}
        name = f"engine {entry.rank}.{entry.incarnation}"
        if is_suspect:
            silence = entry.report_age_seconds
            self._logger.warning("%s is suspect: no report for %.1f s", name, silence)
        else:
            self._logger.info("%s is no longer suspect: it is %s", name, entry.state.name.lower())
