"""A small engine or frontend for tests of the launcher: a real process that speaks the real wire.

`python -P -m tests.support.small_room --role engine --behaviour serve …`. It holds no model and
serves no request; what it does is report, and end as its behaviour says.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from cluster.telemetry.process import prepare_process
from cluster.wire.codec import Encoder
from cluster.wire.endpoints import Endpoints
from cluster.wire.messages import (
    PROTOCOL_VERSION,
    EnginePhase,
    FrontendHello,
    LoadReport,
    Message,
)
from cluster.wire.sockets import connect_reports, new_context, try_send

REPORT_SECONDS = 0.05


class SmallRoom:
    """Reports until SIGTERM."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._reports_sent = 0
        self.is_stopping = False

    def run(self) -> int:
        """The exit code."""
        context = new_context()
        endpoints = Endpoints(self._arguments.run_directory)
        encoder = Encoder()
        with connect_reports(context, endpoints.reports) as reports:
            while not self.is_stopping:
                try_send(reports, encoder.encode(self._report(endpoints)))
                self._reports_sent += 1
                time.sleep(REPORT_SECONDS)
        context.term()
        return 9 if self._arguments.behaviour == "cut" else 0

    def _report(self, endpoints: Endpoints) -> Message:
        index, incarnation = self._arguments.index, self._arguments.incarnation
        if self._arguments.role == "frontend":
            address = endpoints.frontend(index, incarnation)
            return FrontendHello(PROTOCOL_VERSION, index, incarnation, *address)
        is_loading = self._arguments.behaviour.startswith("load-")
        phase = EnginePhase.LOADING if is_loading else EnginePhase.READY
        running = 0 if self._arguments.behaviour == "idle" else 2
        return LoadReport(
            index, incarnation, self._reports_sent, phase,
            progress=0.5, running=running, total_blocks=10, used_blocks=5,
        )  # fmt: skip


def main() -> int:
    """Behave."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--role", choices=["engine", "frontend"], required=True)
    parser.add_argument("--behaviour", required=True)
    parser.add_argument("--index", type=int, required=True)
    parser.add_argument("--run-directory", type=Path, required=True)
    parser.add_argument("--incarnation", type=int, required=True)
    parser.add_argument("--listen-fd", type=int)
    arguments = parser.parse_args()
    prepare_process(f"quadriga: small {arguments.role} {arguments.index}")
    room = SmallRoom(arguments)

    def stop(*_: object) -> None:
        room.is_stopping = True

    signal.signal(
        signal.SIGTERM, signal.SIG_IGN if arguments.behaviour in ("stubborn", "load-deaf") else stop
    )
    signal.signal(signal.SIGUSR1, stop)  # retires a frontend alone
    if arguments.role == "frontend":
        os.fstat(arguments.listen_fd)  # raises unless the HTTP socket has come along
    if arguments.behaviour == "fail" or (
        arguments.behaviour == "fail-later" and arguments.incarnation > 1
    ):
        sys.stderr.write("the weights of this engine\nare nowhere to be found\n")
        return 3
    return room.run()


if __name__ == "__main__":
    sys.exit(main())
