"""A server that is compared with others."""

from typing import NamedTuple


class Peer(NamedTuple):
    """A server by the name that the user gave it."""

    name: str
    url: str
    command: tuple[str, ...] = ()
    """What starts it before each of its turns; empty: it runs all the time."""


class PeerError(Exception):
    """A server that cannot be measured; the text names it and says why."""
