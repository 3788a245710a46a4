"""How fast this machine reads and multiplies, with torch's threads as they are set."""

import math
import time
from collections.abc import Callable

import torch

from loadtests.engine_lab.cost import MachineLimits

_TRIES = 6
_CPU_READ_BYTES = 512 * 1024**2
_CPU_MATRIX_SIZE = 2048
_GPU_COPY_BYTES = 2 * 1024**3
_GPU_MATRIX_SIZE = 8192


def measure_limits(device: torch.device) -> MachineLimits:
    """The best of several tries of each.

    On a CPU: the sum of a large float32 buffer, and a float32 matrix product. On a GPU: a copy, of
    which both directions count, and a bfloat16 product.
    """
    if device.type == "cuda":
        return MachineLimits(
            _copy_bandwidth(device), _multiply_speed(device, _GPU_MATRIX_SIZE, torch.bfloat16)
        )
    return MachineLimits(
        _read_bandwidth(device), _multiply_speed(device, _CPU_MATRIX_SIZE, torch.float32)
    )


def _read_bandwidth(device: torch.device) -> float:
    buffer = torch.ones(_CPU_READ_BYTES // 4, device=device)
    return _CPU_READ_BYTES / _best_seconds(buffer.sum, device)


def _copy_bandwidth(device: torch.device) -> float:
    source = torch.ones(_GPU_COPY_BYTES, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * _GPU_COPY_BYTES / _best_seconds(lambda: target.copy_(source), device)


def _multiply_speed(device: torch.device, size: int, dtype: torch.dtype) -> float:
    left, right = (torch.full((size, size), 0.5, dtype=dtype, device=device) for _ in range(2))
    out = torch.empty_like(left)
    seconds = _best_seconds(lambda: torch.mm(left, right, out=out), device)
    return 2 * size**3 / seconds


def _best_seconds(work: Callable[[], object], device: torch.device) -> float:
    best = math.inf
    for _ in range(_TRIES):
        _wait_for(device)
        started_at = time.perf_counter()
        work()
        _wait_for(device)
        best = min(best, time.perf_counter() - started_at)
    return best


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def has_gpu() -> bool:
    """Whether torch finds a CUDA device."""
    return torch.cuda.is_available()
