"""An engine's flight record: who is in the step under way, readable after a death of any kind.

A file of fixed size in the run directory, mapped into the engine's memory: to record a step is to copy
some bytes, and the kernel keeps them however the process ends. One writer; readers come
after its death, or while it hangs.
"""

import mmap
import struct
from pathlib import Path

import msgspec

from cluster.wire.messages import FlightRecord

LONGEST_REQUEST_ID_BYTES = 128
"""Longer request ids are refused at the engine's door, so that every record fits."""

_HEADER = struct.Struct("<QI")
"""A version, odd while the record is being written, and the number of bytes that follow."""
_BYTES_A_REQUEST = LONGEST_REQUEST_ID_BYTES + 8


def flight_record_path(run_directory: str | Path, rank: int, incarnation: int) -> Path:
    """Where an incarnation of an engine keeps its record."""
    return Path(run_directory) / f"flight-{rank}.{incarnation}"


class FlightRecorder:
    """The engine's end: says before each step who is in it, and after it that nobody is."""

    def __init__(self, path: Path, max_requests: int) -> None:
        """Make the file, with room for `max_requests` in one step. Raises OSError."""
        size = _HEADER.size + 64 + 2 * max_requests * _BYTES_A_REQUEST
        path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), size)
        self._encoder = msgspec.msgpack.Encoder()
        self._version = 0

    def record(self, flight: FlightRecord) -> None:
        """The step under way is this one."""
        payload = self._encoder.encode(flight)
        end = _HEADER.size + len(payload)
        assert end <= len(self._memory), f"{len(payload)} bytes do not fit the flight record"
        self._version += 2
        _HEADER.pack_into(self._memory, 0, self._version - 1, 0)
        self._memory[_HEADER.size : end] = payload
        _HEADER.pack_into(self._memory, 0, self._version, len(payload))

    def close(self) -> None:
        """Let go of the memory; the file stays."""
        self._memory.close()


def read_flight_record(path: Path) -> FlightRecord | None:
    """The step that was under way; None if there is no whole record."""
    try:
        content = path.read_bytes()
        version, size = _HEADER.unpack_from(content)
        if version % 2 or not size:
            return None
        payload = content[_HEADER.size : _HEADER.size + size]
        return msgspec.msgpack.decode(payload, type=FlightRecord)
    except (OSError, struct.error, msgspec.MsgspecError):
        return None
