"""Copies between the host and the device that the host does not wait for."""

import torch


def copy_into(target: torch.Tensor, host: torch.Tensor) -> None:
    """Copy `host`, a tensor on the CPU, into `target`, in the order of the device's stream.

    `host` may be changed or dropped at once: torch keeps pinned memory until the device has read it.
    """
    if target.is_cuda:
        host = host.pin_memory()
    target.copy_(host, non_blocking=True)


def to_device(host: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A copy of `host` on `device`, likewise; on the CPU `host` itself."""
    if device.type == "cpu":
        return host
    target = torch.empty_like(host, device=device)
    copy_into(target, host)
    return target


def to_host(source: torch.Tensor) -> torch.Tensor:
    """A copy of `source` on the host, there when the device has come so far; on the CPU itself."""
    if not source.is_cuda:
        return source
    host = torch.empty_like(source, device="cpu", pin_memory=True)
    return host.copy_(source, non_blocking=True)
