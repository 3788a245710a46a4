import contextlib
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.errors import DecodeError, ProtocolMismatch
from cluster.wire.codec import (
    AUX_THRESHOLD_BYTES,
    MAX_FRAME_BYTES,
    Decoder,
    Encoder,
    check_protocol_version,
)
from cluster.wire.messages import (
    PROTOCOL_VERSION,
    AbortRequests,
    AddRequest,
    AnyMessage,
    Blob,
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineToFrontend,
    FrontendToEngine,
    Message,
    TokenLogprobs,
)
from cluster.wire.sampling import FinishReason, SamplingParams

MESSAGE_TYPES: tuple[type[Message], ...] = get_args(AnyMessage)

small_lists = st.lists(st.integers(0, 2**31 - 1), max_size=20)
add_requests = st.builds(
    AddRequest,
    request_id=st.text(max_size=20),
    frontend_index=st.integers(0, 255),
    frontend_incarnation=st.integers(1, 2**40),
    dispatch_seq=st.integers(0, 2**53),
    attempt=st.integers(0, 100),
    prompt_token_ids=small_lists,
    output_token_ids=small_lists,
    block_hashes=st.lists(st.binary(min_size=16, max_size=16), max_size=4),
    sampling=st.builds(
        SamplingParams,
        max_tokens=st.integers(0, 10**6),
        temperature=st.floats(0, 2),
        logit_bias=st.lists(st.tuples(st.integers(0, 10**6), st.floats(-100, 100)), max_size=3),
        logprobs=st.none() | st.integers(0, 20),
        bad_words=st.lists(small_lists, max_size=2),
        seed=st.integers(0, 2**63 - 1),
    ),
    cache_salt=st.text(max_size=5),
)


@given(add_requests)
def test_a_request_survives_the_wire(message: AddRequest) -> None:
    decoder: Decoder[FrontendToEngine] = Decoder(FrontendToEngine)
    assert decoder.decode(Encoder().encode(message)) == message


@pytest.mark.parametrize("message_type", MESSAGE_TYPES, ids=lambda kind: kind.__name__)
def test_every_message_has_a_type_byte_of_its_own(message_type: type[Message]) -> None:
    tags = [kind.__struct_config__.tag for kind in MESSAGE_TYPES]
    assert tags.count(message_type.__struct_config__.tag) == 1


@pytest.mark.parametrize("size", [0, 16, AUX_THRESHOLD_BYTES - 1, AUX_THRESHOLD_BYTES, 100_000])
def test_large_blobs_travel_beside_the_message(size: int) -> None:
    logprobs = TokenLogprobs(1, Blob(b"a" * size), Blob(bytearray(b"b" * size)))
    message = EngineCoreOutputs(
        0, 1, [EngineCoreOutput("r", 0, 7, [5], FinishReason.LENGTH, logprobs=logprobs)]
    )
    frames = Encoder().encode(message)
    assert len(frames) == (4 if size >= AUX_THRESHOLD_BYTES else 2)
    decoder: Decoder[EngineToFrontend] = Decoder(EngineToFrontend)
    assert decoder.decode(frames) == message


def test_a_message_of_another_link_is_refused() -> None:
    frames = Encoder().encode(AbortRequests(0, 1, 1, ["r"]))
    with pytest.raises(DecodeError, match="not of this link"):
        Decoder(EngineToFrontend).decode(frames)


def test_a_blob_index_beyond_the_frames_is_refused() -> None:
    logprobs = TokenLogprobs(1, Blob(b"a" * 1000), Blob(b"b" * 1000))
    message = EngineCoreOutputs(0, 1, [EngineCoreOutput("r", 0, 0, [5], logprobs=logprobs)])
    with pytest.raises(DecodeError):
        Decoder(EngineToFrontend).decode(Encoder().encode(message)[:3])


def test_a_frame_over_the_limit_is_refused_undecoded() -> None:
    with pytest.raises(DecodeError, match="over the limit"):
        Decoder(FrontendToEngine).decode([b"\x01", bytes(MAX_FRAME_BYTES + 1)])


@given(st.lists(st.binary(max_size=200), max_size=4))
def test_random_frames_decode_to_an_error_and_nothing_else(frames: list[bytes]) -> None:
    with contextlib.suppress(DecodeError):
        Decoder(FrontendToEngine).decode(frames)


@given(add_requests, st.data())
def test_a_truncated_message_is_an_error(message: AddRequest, data: st.DataObject) -> None:
    type_byte, payload = Encoder().encode(message)
    cut = data.draw(st.integers(0, len(payload) - 1))
    with pytest.raises(DecodeError):
        Decoder(FrontendToEngine).decode([type_byte, payload[:cut]])


def test_deeply_nested_msgpack_is_an_error() -> None:
    with pytest.raises(DecodeError):
        Decoder(FrontendToEngine).decode([b"\x01", b"\x91" * 100_000])


def test_a_field_from_a_newer_minor_version_is_ignored() -> None:
    type_byte, payload = Encoder().encode(AbortRequests(0, 1, 1, ["r"]))
    longer = msgspec.msgpack.encode([*msgspec.msgpack.decode(payload), "a later field"])
    assert Decoder(FrontendToEngine).decode([type_byte, longer]) == AbortRequests(0, 1, 1, ["r"])


def test_only_the_major_version_must_agree() -> None:
    check_protocol_version((PROTOCOL_VERSION[0], 99), "engine 0")
    with pytest.raises(ProtocolMismatch, match="engine 0"):
        check_protocol_version((PROTOCOL_VERSION[0] + 1, 0), "engine 0")
