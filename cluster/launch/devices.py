"""The GPUs of this machine, found without a tensor library."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from cluster.config import ClusterConfig
from cluster.errors import ConfigError

_ASK_SECONDS = 30.0


def list_gpus(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The GPUs that this process may use, as `CUDA_VISIBLE_DEVICES` names them."""
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [device.strip() for device in visible.split(",") if device.strip() not in ("", "-1")]
    return [str(index) for index in range(_count_gpus())]


def _count_gpus() -> int:
    program = shutil.which("nvidia-smi")
    if program is not None:
        try:
            answer = subprocess.run(
                [program, "--list-gpus"],
                check=False,
                capture_output=True,
                text=True,
                timeout=_ASK_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired):
            pass  # a broken driver is asked no further: the device files tell as much
        else:
            return sum(line.startswith("GPU ") for line in answer.stdout.splitlines())
    return len(list(Path("/dev").glob("nvidia[0-9]*")))


def torch_can_use_gpus() -> bool:
    """Whether the installed torch is a build for GPUs, told by its version alone."""
    try:
        return not metadata.version("torch").endswith("+cpu")
    except metadata.PackageNotFoundError:
        return False


def resolve_device(config: ClusterConfig, gpus: list[str], can_use_gpus: bool) -> tuple[str, str]:
    """The device (`cuda` or `cpu`) and the `devices` that this configuration comes to.

    Raises ConfigError if it asks for GPUs that are not there, or for more replicas than GPUs.
    """
    engine = config.engine
    if engine.engine == "simulated":
        return "cpu", ""  # it computes nothing
    if engine.device == "cpu" or (
        engine.device == "auto" and engine.devices is None and not (gpus and can_use_gpus)
    ):
        return "cpu", ""
    if not can_use_gpus:
        raise ConfigError("--device cuda needs a torch build for GPUs; the installed one has none")
    chosen = engine.devices.split(",") if engine.devices else gpus
    if engine.data_parallel_size > len(chosen):
        raise ConfigError(
            f"--dp {engine.data_parallel_size} needs as many GPUs, and there are {len(chosen)}; "
            "--device cpu runs the replicas on the processor"
        )
    return "cuda", ",".join(device.strip() for device in chosen)
