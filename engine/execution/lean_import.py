"""transformers without what only training and compiling need.

Its modules import torch's compiler for a few decorators, and its distributed tensors for checks of types;
building a model imports the compiler once more. Together that takes longer than torch itself does, and
a hundred megabytes of each engine's memory.

Every stand-in here is for something that an engine never uses: it compiles nothing with torch, and its
model is in one process. Where it does not work for a model or a release, the real things are imported.
"""

import contextlib
import importlib
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.utils import _device

_log = logging.getLogger(__name__)

_COMPILER = "torch._dynamo"
_COMPILER_PART = "torch._dynamo._trace_wrapped_higher_order_op"
_MODULES = (
    "transformers.modeling_utils",
    "transformers.masking_utils",
    "transformers.generation.utils",
    "transformers.models.auto.modeling_auto",
)
"""What the module of any model imports."""


def import_transformers() -> None:
    """Import what models are made of; nothing happens if that is there already."""
    if _MODULES[0] in sys.modules:
        return
    try:
        with _without_distributed(), _without_compiler():
            _import_all()
    except Exception:  # noqa: BLE001 - a release with other needs gets what it needs
        _log.warning("transformers is imported in full, which takes longer", exc_info=True)
        _import_all()


def _import_all() -> None:
    with _folders_scanned_once():
        for name in _MODULES:
            importlib.import_module(name)


@contextlib.contextmanager
def lean_construction() -> Iterator[None]:
    """For building a model on no device, whose weights are then read from files.

    Not thread-safe: embeddings that another thread makes meanwhile are not initialized.
    """
    with _without_compiler(), _without_random_embeddings(), _with_real_ranges():
        yield


@contextlib.contextmanager
def _without_distributed() -> Iterator[None]:
    """Let transformers find, once and for all, a torch that was built without it."""
    is_available = torch.distributed.is_available
    torch.distributed.is_available = lambda: False
    try:
        _import_utils().is_torch_distributed_available()  # it remembers the answer
        yield
    finally:
        torch.distributed.is_available = is_available


@contextlib.contextmanager
def _without_compiler() -> Iterator[None]:
    """Have decorators that change nothing stand in for the compiler's, unless it is there."""
    if _COMPILER in sys.modules:
        yield
        return
    compiler, part = ModuleType(_COMPILER), ModuleType(_COMPILER_PART)
    for decorator in ("allow_in_graph", "assume_constant_result", "disable"):
        setattr(compiler, decorator, _unchanged)
    part.TransformGetItemToIndex = _transform_getitem_to_index  # type: ignore[attr-defined]
    stand_ins = {_COMPILER: compiler, _COMPILER_PART: part}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name in stand_ins:
            del sys.modules[name]


def _unchanged(function: Callable[..., Any] | None = None, *_: object, **__: object) -> Any:
    """A decorator, with or without arguments."""
    return _unchanged if function is None else function


def _transform_getitem_to_index() -> Any:
    """The real thing, imported when somebody needs one."""
    return importlib.import_module(_COMPILER_PART).TransformGetItemToIndex()


@contextlib.contextmanager
def _folders_scanned_once() -> Iterator[None]:
    """transformers reads the sources of all its models when it is imported, under two names."""
    utils = _import_utils()
    scan = utils.create_import_structure_from_path  # which remembers its answers by name

    def scan_folder(path: str | Path) -> Any:
        folder = Path(path)
        return scan(folder.parent if folder.name == "__init__.py" else folder)

    utils.create_import_structure_from_path = scan_folder
    try:
        yield
    finally:
        utils.create_import_structure_from_path = scan


def _import_utils() -> Any:
    return importlib.import_module("transformers.utils.import_utils")


@contextlib.contextmanager
def _without_random_embeddings() -> Iterator[None]:
    """Random numbers on no device are computed by what needs the compiler's symbols."""
    embedding: Any = nn.Embedding
    reset = embedding.reset_parameters
    embedding.reset_parameters = lambda _: None
    try:
        yield
    finally:
        embedding.reset_parameters = reset


@contextlib.contextmanager
def _with_real_ranges() -> Iterator[None]:
    """So are ranges of numbers: those of rotary positions are computed where they are needed anyway."""
    constructors = _device._device_constructors()  # noqa: SLF001 - there is no other way in
    had = torch.arange in constructors
    constructors.discard(torch.arange)
    try:
        yield
    finally:
        if had:
            constructors.add(torch.arange)
