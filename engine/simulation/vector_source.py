"""The vectors of a simulated model: made up, and always the same for the same tokens."""

import math
from array import array
from hashlib import shake_128

from cluster.wire.messages import Blob
from engine.request import Request

_INTEGER_BYTES = array("i").itemsize


def made_up_vector(request: Request, size: int) -> Blob:
    """`size` numbers from -1 to 1, float32, that depend on every token and on how they are pooled."""
    pooling = request.sampling.pooling
    assert pooling is not None, f"{request.request_id} does not pool"
    source = shake_128(array("q", request.token_ids).tobytes() + bytes([pooling.pooling]))
    values = [number / 2**31 for number in array("i", source.digest(size * _INTEGER_BYTES))]
    if pooling.normalize:
        length = math.hypot(*values)
        values = [value / length for value in values]
    return Blob(array("f", values).tobytes())
