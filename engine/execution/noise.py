"""Sampling noise that is a pure function of (seed, choice, output position, token id).

Counter-based, in the manner of Philox, so that a request draws the same tokens in any batch, on any
engine, and after a move from one to another. A 64-bit key of the first three, mixed with
each token id by 32-bit integer arithmetic, gives the same uniforms on every device.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import torch

from engine.execution.cuda.staging import to_device

_LARGEST_BELOW_ONE = 1.0 - 2.0**-24


def gumbel_noise(
    seed: int, choice: int, position: int, token_ids: torch.Tensor
) -> torch.Tensor:  # fmt: skip
    """Gumbel noise of these token ids (int64, any shape) at one output position; float32.

    argmax(logits + noise) is a draw from softmax(logits) (the Gumbel-max trick).
    """
    low, high = (_signed(half) for half in _key(seed, choice, position))
    return _gumbel(_random_bits(low, high, token_ids))


def gumbel_noise_of_rows(
    keys: Sequence[tuple[int, int, int]], vocabulary: int, device: torch.device
) -> torch.Tensor:  # fmt: skip
    """That of all token ids for several (seed, choice, position), (keys, vocabulary)."""
    halves = torch.tensor([[_signed(half) for half in _key(*key)] for key in keys])
    low, high = to_device(halves.to(torch.int32), device)[:, :, None].unbind(dim=1)
    token_ids = torch.arange(vocabulary, device=device).expand(len(keys), vocabulary)
    return _gumbel(_random_bits(low, high, token_ids))


def _gumbel(bits: torch.Tensor) -> torch.Tensor:
    # The uniform is fine-grained near 0, where the largest noise comes from.
    uniform = bits.float().add_(0.5).mul_(2.0**-32).clamp_(max=_LARGEST_BELOW_ONE)
    return uniform.neg_().log1p_().neg_().log_().neg_()


@lru_cache(maxsize=4096)
def _key(seed: int, choice: int, position: int) -> tuple[int, int]:
    message = b"%d/%d/%d" % (seed, choice, position)
    low, high = struct.unpack("<II", blake2b(message, digest_size=8).digest())
    return low, high


def _random_bits(
    low: int | torch.Tensor, high: int | torch.Tensor, token_ids: torch.Tensor
) -> torch.Tensor:
    """32 random bits a token id, as int64; two rounds of C. Wellons' `lowbias32`, each keyed.

    Computed in int32, whose products wrap around on every device, at twice the speed of int64.
    """
    x = token_ids.to(torch.int32).bitwise_xor_(low)
    x = _mix(_mix(x).add_(high))
    return x.to(torch.int64).bitwise_and_(0xFFFFFFFF)


def _mix(x: torch.Tensor) -> torch.Tensor:
    x ^= (x >> 16).bitwise_and_(0xFFFF)  # a shift of int32 brings the sign along
    x *= _signed(0x7FEB352D)
    x ^= (x >> 15).bitwise_and_(0x1FFFF)
    x *= _signed(0x846CA68B)
    x ^= (x >> 16).bitwise_and_(0xFFFF)
    return x


def _signed(x: int) -> int:
    return x - 2**32 if x >= 2**31 else x
