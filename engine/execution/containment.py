"""Whose problem an exception in a step is: the device's, and so everybody's, or one request's alone."""

import torch

_DEVICE_ERRORS: tuple[type[BaseException], ...] = (
    MemoryError,
    torch.OutOfMemoryError,
    # Newer versions of torch name what a GPU reports; before that it is a plain RuntimeError.
    *([torch.AcceleratorError] if hasattr(torch, "AcceleratorError") else []),
)
_DEVICE_TEXTS = ("CUDA error", "can't allocate memory", "not enough memory")


def is_device_failure(error: Exception) -> bool:
    """Whether nothing can be computed any more, for whomever: it must end the engine."""
    if isinstance(error, _DEVICE_ERRORS):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _DEVICE_TEXTS)
