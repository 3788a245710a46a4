"""The tiny server as one that is started for its turns."""

import shlex
import sys
from pathlib import Path

from loadtests.drills.processes import processes_below
from loadtests.peers_lab.peer import Peer
from tests.clients.ports import free_ports

PROGRAM = Path(__file__).with_name("tiny_server.py")


def tiny_peer(*flags: str, port: int | None = None) -> Peer:
    """A peer that a command starts, on a port that nobody listens on unless told, with these faults."""
    port = port or free_ports(1)[0]
    return Peer("tiny", f"http://127.0.0.1:{port}", command_words(port, *flags))


def command_words(port: int, *flags: str) -> tuple[str, ...]:
    """What starts it."""
    return (sys.executable, "-P", str(PROGRAM), str(port), *flags)


def command_line(port: int, *flags: str) -> str:
    """The same as one text."""
    return shlex.join(command_words(port, *flags))


def servers_at(port: int) -> list[int]:
    """The tiny servers that were started on a port and run."""
    return processes_below(Path(f"{PROGRAM}\0{port}\0"))  # so the kernel separates arguments
