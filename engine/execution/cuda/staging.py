"""Copies from the host to the device that the host does not wait for."""

import torch


def copy_into(target: torch.Tensor, host: torch.Tensor) -> None:
    """Copy `host`, a tensor on the CPU, into `target`, in the order of the device's stream.

    `host` may be changed or dropped at once: torch keeps pinned memory until the device has read it.
    """
    if target.is_cuda:
        host = host.pin_memory()
    target.copy_(host, non_blocking=True)


def to_device(host: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A copy of `host` on `device`, likewise."""
    target = torch.empty_like(host, device=device)
    copy_into(target, host)
    return target
