"""Whatever arrives, decoding gives a message that all consumers can take, or a DecodeError."""

import random
import time
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.config import CoordinatorConfig
from cluster.errors import DecodeError
from cluster.wire.codec import MAX_FRAMES, Decoder, Encoder
from cluster.wire.messages import (
    AnyMessage,
    ClusterView,
    EngineHello,
    EnginePhase,
    FromCoordinator,
    LoadReport,
    Message,
    ToCoordinator,
)
from coordinator.cluster_state import ClusterState
from frontend.cluster_view import LiveView
from loadtests.drills.hostile_frames import (
    WELL_FORMED,
    confused_messages,
    malformed_messages,
    strange_messages,
    with_another_field,
)

scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=20)
    | st.binary(max_size=300)
)  # fmt: skip
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4), max_leaves=8)


@pytest.fixture(scope="module")
def any_decoder() -> Decoder[Message]:
    return Decoder(AnyMessage)


def test_one_message_of_every_kind_is_there_to_be_spoilt() -> None:
    kinds = {type(message) for message in WELL_FORMED}
    missing = {kind.__name__ for kind in get_args(AnyMessage)} - {kind.__name__ for kind in kinds}
    assert missing == {"BlockEvents", "ControlReply", "ProcessExited", "ProcessStarted"}


def test_malformed_messages_are_refused_quickly(any_decoder: Decoder[Message]) -> None:
    messages = list(malformed_messages(random.Random(0)))
    began_at = time.monotonic()
    for frames in messages:
        with pytest.raises(DecodeError):
            any_decoder.decode(frames)
    assert time.monotonic() - began_at < 5


def test_more_frames_than_any_message_has_are_refused(any_decoder: Decoder[Message]) -> None:
    type_byte, payload = Encoder().encode(WELL_FORMED[1])
    any_decoder.decode([type_byte, payload, *[b""] * (MAX_FRAMES - 2)])
    with pytest.raises(DecodeError, match="over the limit of 20000"):
        any_decoder.decode([type_byte, payload, *[b""] * (MAX_FRAMES - 1)])


def test_a_decoder_keeps_nothing_of_a_message(any_decoder: Decoder[Message]) -> None:
    type_byte, payload = Encoder().encode(WELL_FORMED[1])
    any_decoder.decode([type_byte, payload, bytes(1000)])
    assert not any_decoder._aux


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e300])
@pytest.mark.parametrize("place", ["progress", "slowdown", "predicted_step_seconds"])
def test_a_load_that_is_no_number_is_refused(
    any_decoder: Decoder[Message], place: str, value: float
) -> None:
    report = LoadReport(0, 1, 1, EnginePhase.READY, **{place: value})  # type: ignore[arg-type]
    with pytest.raises(DecodeError, match="float"):
        any_decoder.decode(Encoder().encode(report))


@pytest.mark.parametrize(("rank", "incarnation"), [(-1, 1), (65_536, 1), (0, -1), (0, 2**62)])
def test_a_place_or_incarnation_beyond_all_measure_is_refused(
    any_decoder: Decoder[Message], rank: int, incarnation: int
) -> None:
    report = LoadReport(rank, incarnation, 1, EnginePhase.READY)
    with pytest.raises(DecodeError, match="int"):
        any_decoder.decode(Encoder().encode(report))


class Consumers:
    """The pure parts that hold what messages say, fed with whatever can be decoded."""

    def __init__(self) -> None:
        self.now = 100.0
        self.coordinator = ClusterState(CoordinatorConfig(), 1, self.now, lambda *_: None)
        self.frontend = LiveView((0, 1), 1.0, self.now)
        self._to_coordinator: Decoder[ToCoordinator] = Decoder(ToCoordinator)
        self._from_coordinator: Decoder[FromCoordinator] = Decoder(FromCoordinator)
        self._hello: Decoder[EngineHello] = Decoder(EngineHello)

    def feed(self, frames: list[bytes]) -> None:
        self.now += 0.01
        decoders: tuple[Decoder[Any], ...] = (
            self._to_coordinator, self._from_coordinator, self._hello,
        )  # fmt: skip
        for decoder in decoders:
            try:
                message = decoder.decode(frames)
            except DecodeError:
                continue
            match message:
                case ClusterView():
                    self.frontend.apply(message, self.now)
                case EngineHello():
                    self.frontend.welcome(message, self.now)
                case _ if decoder is self._to_coordinator:
                    self.coordinator.apply(message, self.now)

    def check(self) -> None:
        self.coordinator.expire(self.now)
        view = self.coordinator.view(self.now)
        frames = [bytes(frame) for frame in Encoder().encode(view)]
        assert self._from_coordinator.decode(frames) == view, "others could not read our view"
        self.frontend.apply(view, self.now)
        self.frontend.routing_view(self.now)
        self.frontend.expire(self.now)


def test_whatever_is_decoded_can_be_taken_in() -> None:
    consumers = Consumers()
    for frames in [
        *confused_messages(),
        *strange_messages(),
        *malformed_messages(random.Random(1)),
    ]:
        consumers.feed(frames)
    consumers.check()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(WELL_FORMED), st.integers(0, 30), values), max_size=12))
def test_any_sequence_of_spoilt_messages_can_be_taken_in(
    changes: list[tuple[Message, int, Any]],
) -> None:
    consumers = Consumers()
    for message, place, value in changes:
        frames = Encoder().encode(message)
        consumers.feed([bytes(frame) for frame in frames])
        try:
            spoilt = with_another_field(frames, place, value)
        except (OverflowError, msgspec.EncodeError):
            continue
        consumers.feed(spoilt)
    consumers.check()
