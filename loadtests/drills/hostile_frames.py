"""Messages as no honest peer sends them: random, cut, swollen, of wrong types, and out of date."""

import random
from collections.abc import Iterator
from typing import Any

import msgspec

from cluster.wire.block_hash import HASH_SEED
from cluster.wire.codec import Encoder
from cluster.wire.messages import (
    PROTOCOL_VERSION,
    AbortRequests,
    AddRequest,
    ClusterView,
    ControlRequest,
    DesiredState,
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineEntry,
    EngineGoodbye,
    EngineHello,
    EnginePhase,
    EngineState,
    FrontendEntry,
    FrontendHello,
    FrontendReport,
    LoadReport,
    Message,
    ProcessEntry,
    Role,
    Utility,
    UtilityResult,
)
from cluster.wire.sampling import FinishReason, SamplingParams

STRANGE_PLACE = 50_000
"""A rank or index that no cluster has: well-formed messages that speak for nobody."""

WELL_FORMED: tuple[Message, ...] = (
    AddRequest("r", STRANGE_PLACE, 1, 1, 0, [1, 2], [], [], SamplingParams()),
    AbortRequests(STRANGE_PLACE, 1, 1, ["r"]),
    Utility(STRANGE_PLACE, 1, "ping"),
    EngineHello(PROTOCOL_VERSION, STRANGE_PLACE, 1, "model", 1024, 16, 100, 8, HASH_SEED),
    EngineCoreOutputs(
        STRANGE_PLACE, 1, [EngineCoreOutput("r", 0, 0, [5], FinishReason.LENGTH)],
        LoadReport(STRANGE_PLACE, 1, 1, EnginePhase.READY),
    ),
    UtilityResult(STRANGE_PLACE, 1, 1, "true"),
    EngineGoodbye(STRANGE_PLACE, 1, drained=False, reason="made up"),
    LoadReport(STRANGE_PLACE, 1, 1, EnginePhase.READY, acknowledged=[(0, 1, 1)]),
    FrontendHello(PROTOCOL_VERSION, STRANGE_PLACE, 1, "ipc:///nowhere", "ipc:///nowhere"),
    FrontendReport(STRANGE_PLACE, 1, 0, 0),
    DesiredState(
        1, 1, draining=False, processes=[ProcessEntry(Role.ENGINE, STRANGE_PLACE, 1, 1, True)]
    ),
    ClusterView(
        1, 1, draining=False, engines=[EngineEntry(0, 1, EngineState.READY)],
        frontends=[FrontendEntry(0, 1, alive=True)],
    ),
    ControlRequest("no such verb", ["x"]),
)  # fmt: skip
"""One of each kind, to be spoilt."""

ANY_VALUES: tuple[Any, ...] = (
    None, True, -1, 2**62, 2**63, float("nan"), float("inf"), -1e300, "", "x" * 5000, b"", b"\xff" * 300,
    [], [[]], [1, "a", None], {}, {"a": 1}, {1: [2]}, msgspec.msgpack.Ext(5, b"x"),
)  # fmt: skip
"""Something of every msgpack type."""


def with_another_field(frames: list[Any], place: int, value: Any) -> list[bytes]:
    """A message with one field (0 is its tag) replaced; its type frame stays."""
    fields = msgspec.msgpack.decode(bytes(frames[1]))
    fields[place % len(fields)] = value
    return [bytes(frames[0]), msgspec.msgpack.encode(fields)]


def confused_messages(but: tuple[type[Message], ...] = ()) -> Iterator[list[bytes]]:
    """Every field of every message, replaced by a value of every other type."""
    for message in WELL_FORMED:
        if isinstance(message, but):
            continue
        frames = Encoder().encode(message)
        for place in range(len(msgspec.msgpack.decode(bytes(frames[1])))):
            for value in ANY_VALUES:
                yield with_another_field(frames, place, value)


def malformed_messages(source: random.Random) -> Iterator[list[bytes]]:
    """What is no message whatever the link: cut, swollen, nested, announced and not delivered."""
    type_bytes = [bytes(Encoder().encode(message)[0]) for message in WELL_FORMED]
    for type_byte in [*type_bytes, b"\x00", b"\xff"]:
        yield [type_byte]
        yield [type_byte, b""]
        yield [type_byte, b"\x91" * 100_000]  # arrays in arrays
        yield [type_byte, b"\xdd\xff\xff\xff\xff"]  # an array of 4 billion
        yield [type_byte, b"\xdb\xff\xff\xff\xff" + b"x"]  # a text of 4 GiB
        yield [type_byte, b"\xc6\xff\xff\xff\xff"]  # bytes, as many
        yield [type_byte, b"\x9f" + b"\xc0" * 15]
        yield [type_byte, source.randbytes(source.randrange(1, 2000))]
    for message in WELL_FORMED:
        first, payload = (bytes(frame) for frame in Encoder().encode(message)[:2])
        yield [first, payload[: source.randrange(len(payload))]]
        yield [b"", first, payload]
        yield [payload, first]
    yield [b""]
    yield [b""] * 5000
    yield [source.randbytes(10)] * 25_000
    yield [b"\x13", bytes(8 * 1024 * 1024)]
    for _ in range(50):
        yield [source.randbytes(source.randrange(200)) for _ in range(source.randrange(1, 6))]


def strange_messages() -> Iterator[list[bytes]]:
    """Well-formed messages in the name of processes that the cluster does not have."""
    for message in WELL_FORMED:
        if not isinstance(message, (DesiredState, ClusterView, ControlRequest)):
            yield [bytes(frame) for frame in Encoder().encode(message)]


def identities(source: random.Random) -> Iterator[bytes]:
    """Names for a DEALER: an engine's of long ago, none at all, far too long, and random ones."""
    yield b"e0.0"
    yield b"e0.99999999999999999999"
    yield b"e-1.1"
    yield b"x" * 255
    yield b"\x01" * 8
    for _ in range(5):
        yield b"e" + source.randbytes(source.randrange(1, 100))
