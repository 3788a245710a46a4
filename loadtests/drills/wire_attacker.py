"""A stranger inside the run directory: speaks to every bound socket of a cluster, and never well."""

import random
import stat
from collections.abc import Iterator
from pathlib import Path

import zmq

from cluster.wire.messages import ClusterView, ControlRequest, DesiredState
from cluster.wire.sockets import Socket, new_context, try_send
from loadtests.drills.hostile_frames import (
    confused_messages,
    identities,
    malformed_messages,
    strange_messages,
)

TOPICS = 5000
SEND_QUEUE = 200_000
LAST_SENDS_SECONDS = 20.0

AUTHORITATIVE = (DesiredState, ClusterView, ControlRequest)
"""Their fields may say true things in wrong hands, as `cluster stop` may; those are not made up here."""


class WireAttacker:
    """Sends every hostile message to every socket. All methods block."""

    def __init__(self, run_directory: Path, seed: int = 0) -> None:
        self._directory = run_directory
        self._source = random.Random(seed)

    def sockets(self) -> list[Path]:
        """The bound sockets of the cluster."""
        return sorted(
            path for path in self._directory.iterdir() if stat.S_ISSOCK(path.lstat().st_mode)
        )

    def attack(self) -> dict[str, int]:
        """Attack each socket once in its own language; how many messages were sent to each."""
        messages = list(self._messages())
        context = new_context()
        try:
            return {path.name: self._attack(context, path, messages) for path in self.sockets()}
        finally:
            context.term()

    def _messages(self) -> Iterator[list[bytes]]:
        yield from malformed_messages(self._source)
        yield from confused_messages(but=AUTHORITATIVE)
        for frames in strange_messages():
            yield from [frames] * 20  # replayed

    def _attack(
        self, context: "zmq.Context[Socket]", path: Path, messages: list[list[bytes]]
    ) -> int:
        if path.name == "view":
            return self._subscribe(context, path)
        if path.name == "reports" or path.name.endswith(".outputs"):
            with context.socket(zmq.PUSH) as socket:
                return self._send(socket, path, messages)
        sent = 0
        for identity in identities(self._source):
            with context.socket(zmq.DEALER) as socket:
                socket.setsockopt(zmq.IDENTITY, identity)
                sent += self._send(socket, path, messages[:: 1 if not sent else 25])
        return sent

    def _subscribe(self, context: "zmq.Context[Socket]", path: Path) -> int:
        with context.socket(zmq.SUB) as socket:
            socket.connect(f"ipc://{path}")
            for _ in range(TOPICS):
                socket.setsockopt(zmq.SUBSCRIBE, self._source.randbytes(50))
            socket.poll(500)
        with context.socket(zmq.XSUB) as socket:
            return self._send(socket, path, [[b"\x02not a topic"], [b""], [b"\x07" * 10_000]])

    def _send(self, socket: Socket, path: Path, messages: list[list[bytes]]) -> int:
        """Returns once they have left this process; a peer that hangs up ends the wait."""
        socket.set_hwm(SEND_QUEUE)
        socket.setsockopt(zmq.LINGER, 0)
        monitor = socket.get_monitor_socket(zmq.EVENT_CONNECTED)
        socket.connect(f"ipc://{path}")
        monitor.poll(2000)
        sent = 0
        for frames in messages:
            if not socket.poll(round(LAST_SENDS_SECONDS * 1000), zmq.POLLOUT):
                break
            sent += try_send(socket, frames)
        socket.setsockopt(zmq.LINGER, round(LAST_SENDS_SECONDS * 1000))
        socket.disable_monitor()
        monitor.close()
        return sent
