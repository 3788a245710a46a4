"""A relay in front of the cluster's unix sockets, which does to connections what networks do.

A process binds its socket file; the relay renames the file and listens in its place, so that whoever
connects from then on passes through. The kernel tells which process connects (`SO_PEERCRED`), and
each process can be treated in a way of its own.
"""

import asyncio
import contextlib
import socket
import struct
from pathlib import Path
from typing import NamedTuple

PIECE_BYTES = 64 * 1024
PIECES_UNDER_WAY = 64
"""Bounds what the relay holds of a connection; beyond that the sender waits, as with a full pipe."""


class Treatment(NamedTuple):
    """What happens to the connections of one process."""

    is_cut: bool = False
    """Connections are closed, and new ones at once after they are accepted."""
    is_held: bool = False
    """Connections stay open and nothing passes, until they are let go: a black hole."""
    delay_seconds: float = 0.0
    """Each way."""
    bytes_per_second: float | None = None
    """Each way, for each connection."""


PASS = Treatment()
CUT = Treatment(is_cut=True)
HOLD = Treatment(is_held=True)


class Relay:
    """Relays any number of sockets of one run directory. Lives on one event loop."""

    def __init__(self, run_directory: Path) -> None:
        self._directory = run_directory
        self._servers: dict[str, asyncio.Server] = {}
        self._treatments: dict[int, Treatment] = {}
        self._changed = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self._pids: dict[asyncio.Task[None], int] = {}

    async def __aenter__(self) -> "Relay":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def interpose(self, *names: str) -> None:
        """Stand in front of these sockets. Raises OSError if one is not there."""
        for name in names:
            path = self._directory / name
            path.rename(self._real(name))

            async def accept(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str = name
            ) -> None:
                await self._serve(name, reader, writer)

            self._servers[name] = await asyncio.start_unix_server(accept, path)

    def treat(self, pid: int, treatment: Treatment) -> None:
        """Treat all connections of a process in this way from now on, new and old."""
        self._treatments[pid] = treatment
        self._changed.set()
        self._changed = asyncio.Event()
        if treatment.is_cut:
            for task, owner in list(self._pids.items()):
                if owner == pid:
                    task.cancel()

    def num_connections(self, pid: int) -> int:
        """Connections of a process that pass through here now."""
        return list(self._pids.values()).count(pid)

    async def close(self) -> None:
        """Break all connections, and let everybody connect directly again."""
        for name, server in self._servers.items():
            server.close()
            with contextlib.suppress(FileNotFoundError):
                # Atomic: nobody finds no socket. Gone if its owner has ended or bound anew.
                self._real(name).rename(self._directory / name)
        self._servers.clear()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _real(self, name: str) -> Path:
        return self._directory / f"{name}.real"

    def _treatment(self, pid: int) -> Treatment:
        return self._treatments.get(pid, PASS)

    async def _serve(
        self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        pid = _peer_pid(writer)
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        self._connections.add(task)
        self._pids[task] = pid
        writers = [writer]
        try:
            if self._treatment(pid).is_cut:
                return
            far_reader, far_writer = await asyncio.open_unix_connection(self._real(name))
            writers.append(far_writer)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._relay(pid, reader, far_writer))
                group.create_task(self._relay(pid, far_reader, writer))
        except* (OSError, asyncio.CancelledError):
            pass  # cut, or the far side is gone
        finally:
            for each in writers:
                each.transport.abort()
            self._connections.discard(task)
            del self._pids[task]

    async def _relay(
        self, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(PIECES_UNDER_WAY)
        loop = asyncio.get_running_loop()

        async def deliver() -> None:
            while True:
                arrived_at, piece = await pieces.get()
                while (treatment := self._treatment(pid)).is_held:
                    await self._changed.wait()
                await asyncio.sleep(arrived_at + treatment.delay_seconds - loop.time())
                writer.write(piece)
                await writer.drain()
                if treatment.bytes_per_second is not None:
                    await asyncio.sleep(len(piece) / treatment.bytes_per_second)
                pieces.task_done()

        delivery = asyncio.create_task(deliver())
        try:
            while piece := await reader.read(PIECE_BYTES):
                await pieces.put((loop.time(), piece))
            await pieces.join()
        finally:
            delivery.cancel()
        raise ConnectionResetError("one side has closed, and so does the other")


def _peer_pid(writer: asyncio.StreamWriter) -> int:
    credentials = writer.get_extra_info("socket").getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
    )
    pid: int = struct.unpack("3i", credentials)[0]
    return pid
