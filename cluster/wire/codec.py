"""Messages to frames and back: `[type: 1 byte][msgpack payload][aux buffer …]`.

A `Blob` of `AUX_THRESHOLD_BYTES` and more travels as a frame of its own, uncopied on both sides; the
payload then holds its index. No pickle anywhere: a frame decodes to a known message or to an error.
"""

from collections.abc import Sequence
from types import UnionType
from typing import Any, Generic, TypeVar, cast, get_args

import msgspec

from cluster.errors import DecodeError, ProtocolMismatch
from cluster.wire.messages import PROTOCOL_VERSION, Blob, Message

AUX_THRESHOLD_BYTES = 256
MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Larger frames than any message can need are refused undecoded."""
MAX_FRAMES = 20_000
"""So are messages of more frames: 4096 requests with four blobs each need fewer."""

Frame = bytes | bytearray | memoryview
MessageT = TypeVar("MessageT", bound=Message)


def _type_byte(message_type: type[Message]) -> bytes:
    return bytes([cast("int", message_type.__struct_config__.tag)])


class Encoder:
    """Encodes any message. Keeps buffers of the message at hand: one per thread."""

    def __init__(self) -> None:
        self._aux: list[Frame] = []
        self._encoder = msgspec.msgpack.Encoder(enc_hook=self._encode_blob)

    def encode(self, message: Message) -> list[Frame]:
        """The frames of `message`; blobs in them are views of the caller's memory."""
        self._aux = []
        payload = self._encoder.encode(message)
        return [_type_byte(type(message)), payload, *self._aux]

    def _encode_blob(self, value: Any) -> bytes | int:
        if not isinstance(value, Blob):
            raise NotImplementedError(f"{type(value).__name__} does not travel on the wire")
        if len(value.data) < AUX_THRESHOLD_BYTES:
            return bytes(value.data)
        self._aux.append(value.data)
        return len(self._aux) - 1


class Decoder(Generic[MessageT]):
    """Decodes the messages of one link, and refuses all others. One per thread."""

    def __init__(self, link: type[MessageT] | UnionType) -> None:
        self._aux: Sequence[Frame] = ()
        self._decoders: dict[bytes, msgspec.msgpack.Decoder[MessageT]] = {
            _type_byte(message_type): msgspec.msgpack.Decoder(
                message_type, dec_hook=self._decode_blob
            )
            for message_type in (get_args(link) or (link,))
        }

    def decode(self, frames: Sequence[Frame]) -> MessageT:
        """The message in `frames` (identity frames already taken off).

        Raises DecodeError for anything that is not a message of this link.
        """
        if len(frames) < 2:
            raise DecodeError(f"{len(frames)} frames are not a message")
        if len(frames) > MAX_FRAMES:
            raise DecodeError(f"{len(frames)} frames are over the limit of {MAX_FRAMES}")
        if max(map(len, frames)) > MAX_FRAME_BYTES:
            raise DecodeError(f"a frame of {max(map(len, frames))} bytes is over the limit")
        decoder = self._decoders.get(bytes(frames[0]))
        if decoder is None:
            raise DecodeError(f"message type {bytes(frames[0][:8]).hex()} is not of this link")
        self._aux = frames[2:]
        try:
            return decoder.decode(frames[1])
        except (msgspec.MsgspecError, RecursionError) as error:
            raise DecodeError(str(error)) from error
        finally:
            self._aux = ()  # a big message is not kept until the next one comes

    def _decode_blob(self, expected: type, value: Any) -> Blob:
        if isinstance(value, bytes):
            return Blob(value)
        if isinstance(value, int) and 0 <= value < len(self._aux):
            return Blob(self._aux[value])
        raise msgspec.ValidationError("a blob is bytes or the index of an aux frame")


def check_protocol_version(version: tuple[int, int], peer: str) -> None:
    """Raises ProtocolMismatch if `peer` speaks another major version than this process."""
    if version[0] != PROTOCOL_VERSION[0]:
        raise ProtocolMismatch(
            f"{peer} speaks protocol {version[0]}.{version[1]}, "
            f"this process {PROTOCOL_VERSION[0]}.{PROTOCOL_VERSION[1]}"
        )
