"""The numbers and names by which processes and requests know each other."""

import secrets
from typing import NewType

RequestId = NewType("RequestId", str)
"""Unique over all frontends: a client's id, or ours, with a random suffix."""

EngineRank = NewType("EngineRank", int)
FrontendIndex = NewType("FrontendIndex", int)

Incarnation = NewType("Incarnation", int)
"""The launcher's count of starts of one process, from 1, rising for the life of the cluster.
Whoever has seen a newer one drops what the older ones still send."""


def new_request_id(prefix: str) -> RequestId:
    """A fresh id such as `chatcmpl-3f9c…`, unpredictable and unique over all frontends."""
    return RequestId(f"{prefix}-{secrets.token_hex(12)}")


def engine_identity(rank: int, incarnation: int) -> bytes:
    """What the DEALER identity of an engine begins with, `e<rank>.<incarnation>`."""
    return b"e%d.%d" % (rank, incarnation)


def new_engine_identity(rank: int, incarnation: int) -> bytes:
    """A fresh identity for one connection of an engine: nobody else can have taken it before."""
    return engine_identity(rank, incarnation) + b"." + secrets.token_hex(8).encode()


def is_identity_of(identity: bytes, rank: int, incarnation: int) -> bool:
    """Whether this is a name under which that engine may connect."""
    name = engine_identity(rank, incarnation)
    return identity == name or identity.startswith(name + b".")
