"""Which attention a CUDA device gets, by what it is and what is installed."""

import logging
from collections.abc import Callable
from importlib.util import find_spec
from typing import Literal, NamedTuple

import torch

from engine.execution.cuda.flash_attention import load_flash_attention
from engine.execution.cuda.gather_attention import GatherAttention
from engine.execution.cuda.varlen_attention import load_varlen_attention
from engine.execution.paged_attention import AttentionBackend

_log = logging.getLogger(__name__)

BackendName = Literal["varlen", "flash_attn", "gather"]

FLASH_ATTENTION_3 = "flash_attn_interface"
FLASH_ATTENTION_2 = "flash_attn.flash_attn_interface"

_HALF_TYPES = (torch.float16, torch.bfloat16)
_HEAD_DIM_MULTIPLE, _MAX_HEAD_DIM = 8, 256
_FLASH_ATTENTION_2_PAGE = 256
_FIRST_PAGED_VARLEN = (2, 12)


class DeviceTraits(NamedTuple):
    """What a choice depends on, besides the model."""

    capability: tuple[int, int]
    torch_version: tuple[int, int]
    modules: frozenset[str]
    """Of `FLASH_ATTENTION_3` and `FLASH_ATTENTION_2`, those that are installed."""


class AttentionShape(NamedTuple):
    """What the kernels have to compute."""

    block_size: int
    head_dim: int
    query_dtype: torch.dtype
    cache_dtype: torch.dtype


class Choice(NamedTuple):
    """A backend, and why it is no better one."""

    name: BackendName
    reason: str


def choose_backend(traits: DeviceTraits, shape: AttentionShape) -> Choice:
    """The fastest backend that computes this shape on such a device."""
    in_the_way = _obstacle_to_kernels(shape)
    if in_the_way:
        return Choice("gather", in_the_way)
    in_the_way = _obstacle_to_varlen(traits)
    if not in_the_way:
        return Choice("varlen", "")
    also_in_the_way = _obstacle_to_flash_attention_2(traits, shape)
    if not also_in_the_way:
        return Choice("flash_attn", in_the_way)
    return Choice("gather", f"{in_the_way}; {also_in_the_way}")


def _obstacle_to_kernels(shape: AttentionShape) -> str:
    if shape.query_dtype not in _HALF_TYPES or shape.query_dtype != shape.cache_dtype:
        return (
            "the kernels need a model and a KV cache of one type, float16 or bfloat16, not "
            f"{shape.query_dtype} and {shape.cache_dtype}"
        )
    if shape.head_dim % _HEAD_DIM_MULTIPLE or shape.head_dim > _MAX_HEAD_DIM:
        return f"the kernels do not support heads of size {shape.head_dim}"
    return ""


def _obstacle_to_varlen(traits: DeviceTraits) -> str:
    if traits.capability[0] != 9:
        return "FlashAttention 3 is for compute capability 9.0, not {}.{}".format(
            *traits.capability
        )
    if traits.torch_version < _FIRST_PAGED_VARLEN:
        return "torch {}.{} has no attention over pages, 2.12 has".format(*traits.torch_version)
    if FLASH_ATTENTION_3 not in traits.modules:
        return "FlashAttention 3 is not installed"
    return ""


def _obstacle_to_flash_attention_2(traits: DeviceTraits, shape: AttentionShape) -> str:
    if traits.capability < (8, 0):
        return "flash-attn 2 needs compute capability 8.0"
    if FLASH_ATTENTION_2 not in traits.modules:
        return "flash-attn 2 is not installed"
    if shape.block_size % _FLASH_ATTENTION_2_PAGE:
        return f"flash-attn 2 needs --block-size {_FLASH_ATTENTION_2_PAGE}"
    return ""


def device_traits(device: torch.device) -> DeviceTraits:
    """What is to be known of a CUDA device, and of what is installed here."""
    major, minor = torch.__version__.split(".")[:2]
    modules = (FLASH_ATTENTION_3, FLASH_ATTENTION_2)
    return DeviceTraits(
        capability=torch.cuda.get_device_capability(device),
        torch_version=(int(major), int(minor)),
        modules=frozenset(name for name in modules if _is_installed(name)),
    )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # of the package that it is in
        return False


def make_attention(traits: DeviceTraits, shape: AttentionShape) -> AttentionBackend:
    """The best backend that can be loaded; a warning says why it is the slow one, if it is."""
    module: str
    load: Callable[[], AttentionBackend]
    choice = choose_backend(traits, shape)
    match choice.name:
        case "gather":
            _log.warning("attention runs in plain torch, which is slow: %s", choice.reason)
            return GatherAttention()
        case "varlen":
            module, load = FLASH_ATTENTION_3, load_varlen_attention
        case "flash_attn":
            module, load = FLASH_ATTENTION_2, load_flash_attention
    try:
        return load()
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        _log.warning("%s cannot be used: %s", module, error)
        return make_attention(traits._replace(modules=traits.modules - {module}), shape)
