"""The compiled CPU kernels as functions over tensors. See `kernels/cpu_native.c` for their promise.

Calls go through ctypes, which lets other threads run Python meanwhile. Nothing is checked here:
types, contiguity and shapes are the callers' to make sure of, which are the packed modules.
"""

import ctypes
from functools import cache

import torch

from engine.execution.native_build import NoCompiler, built_library

PANEL_COLUMNS = 16
MAX_HEAD_DIM = 256
KINDS = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2, torch.int8: 3}
ACTIVATIONS = {"silu": 0, "gelu_tanh": 1, "gelu": 2}

_Pointer = ctypes.c_void_p
_Long = ctypes.c_int64
_Int = ctypes.c_int


class LinearArguments(ctypes.Structure):
    """`struct Linear`. It holds addresses: the tensors are its owner's to keep."""

    _fields_ = [
        *((name, _Pointer) for name in ("panels", "scale", "bias")),
        *((name, _Long) for name in ("depth", "columns")),
        ("kind", _Int),
    ]  # fmt: skip

    @classmethod
    def of(
        cls,
        panels: torch.Tensor,
        scale: torch.Tensor | None,
        bias: torch.Tensor | None,
        depth: int,
        columns: int,
    ) -> "LinearArguments":
        """Panels as `PackedWeight` has them, and a float32 number a column of the others."""
        return cls(
            panels=panels.data_ptr(), scale=address(scale), bias=address(bias),
            depth=depth, columns=columns, kind=KINDS[panels.dtype],
        )  # fmt: skip


def address(tensor: torch.Tensor | None) -> int | None:
    """Where its first number lies; None, the null pointer, for none."""
    return None if tensor is None else tensor.data_ptr()


class AttentionArguments(ctypes.Structure):
    """`struct Attention`."""

    _fields_ = [
        *((name, _Pointer) for name in ("query", "key", "value")),
        *((name, _Long) for name in (
            "query_token_stride", "query_head_stride", "key_token_stride", "key_head_stride",
            "value_token_stride", "value_head_stride",
        )),
        *((name, _Pointer) for name in (
            "key_cache", "value_cache", "query_start", "first_position", "block_table",
            "table_start", "out",
        )),
        *((name, _Long) for name in ("sequences", "heads", "kv_heads", "head_dim", "block_size")),
        ("scale", ctypes.c_float),
        ("kind", _Int),
        ("threads", _Int),
    ]  # fmt: skip


class LayerArguments(ctypes.Structure):
    """`struct Layer`."""

    _fields_ = [
        *((name, LinearArguments) for name in ("query_key_value", "output", "gate_up", "down")),
        *((name, _Pointer) for name in (
            "input_norm", "middle_norm", "query_norm", "key_norm", "key_cache", "value_cache",
        )),
    ]  # fmt: skip


class DecoderArguments(ctypes.Structure):
    """`struct Decoder`."""

    _fields_ = [
        ("layers", ctypes.POINTER(LayerArguments)),
        *((name, _Long) for name in ("num_layers", "tokens", "hidden", "intermediate")),
        *((name, _Pointer) for name in (
            "cosines", "sines", "x", "normed", "query_key_value", "attended", "gate_up",
            "activated",
        )),
        ("epsilon", ctypes.c_float),
        ("head_epsilon", ctypes.c_float),
        ("activation", _Int),
        ("attention", AttentionArguments),
    ]  # fmt: skip


class Kernels:
    """The loaded library, with the number of threads that its functions use."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._library = _load()

    def linear(self, x: torch.Tensor, weight: LinearArguments) -> torch.Tensor:
        """`x` (rows, depth) float32 times a packed weight, plus its bias: (rows, columns) float32."""
        out = torch.empty((x.shape[0], weight.columns))
        self._library.linear(
            ctypes.byref(weight), x.data_ptr(), x.shape[0], out.data_ptr(), self.threads
        )
        return out

    def paged_attention(self, arguments: AttentionArguments) -> None:
        """Write the step's keys and values to the cache and attend to all that is there."""
        arguments.threads = self.threads
        self._library.paged_attention(ctypes.byref(arguments))

    def decoder_layers(self, arguments: DecoderArguments) -> None:
        """Compute all layers of a step in place."""
        arguments.attention.threads = self.threads
        self._library.decoder_layers(ctypes.byref(arguments))

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
        """`x` over its root mean square along the last axis, times `weight`; float32."""
        out = torch.empty_like(x)
        size = x.shape[-1]
        self._library.rms_norm(
            x.data_ptr(), x.numel() // size, size, weight.data_ptr(), epsilon, out.data_ptr(),
            self.threads,
        )  # fmt: skip
        return out

    def activate(self, x: torch.Tensor, activation: str) -> torch.Tensor:
        """The activation of every element; float32."""
        out = torch.empty_like(x)
        self._library.activate(x.data_ptr(), x.numel(), ACTIVATIONS[activation], out.data_ptr())
        return out

    def gated_activation(self, gate_up: torch.Tensor, activation: str) -> torch.Tensor:
        """(rows, 2·size) to (rows, size): the activation of the first half times the second."""
        rows, size = gate_up.shape[0], gate_up.shape[1] // 2
        out = torch.empty((rows, size))
        self._library.gated_activation(
            gate_up.data_ptr(), rows, size, ACTIVATIONS[activation], out.data_ptr(), self.threads
        )
        return out


@cache
def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(built_library()))
    except OSError as error:
        raise NoCompiler(f"the compiled kernels do not load: {error}") from error
    library.linear.argtypes = [
        ctypes.POINTER(LinearArguments), _Pointer, _Long, _Pointer, _Int,
    ]  # fmt: skip
    library.paged_attention.argtypes = [ctypes.POINTER(AttentionArguments)]
    library.decoder_layers.argtypes = [ctypes.POINTER(DecoderArguments)]
    library.rms_norm.argtypes = [
        _Pointer, _Long, _Long, _Pointer, ctypes.c_float, _Pointer, _Int,
    ]  # fmt: skip
    library.activate.argtypes = [_Pointer, _Long, _Int, _Pointer]
    library.gated_activation.argtypes = [_Pointer, _Long, _Long, _Int, _Pointer, _Int]
    for function in (
        library.linear, library.paged_attention, library.decoder_layers, library.rms_norm,
        library.activate, library.gated_activation,
    ):  # fmt: skip
        function.restype = None
    return library
