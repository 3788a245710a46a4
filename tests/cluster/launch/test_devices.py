"""Which device a configuration comes to on a machine with these GPUs."""

from typing import Any

import pytest

from cluster.errors import ConfigError
from cluster.launch.config_sources import resolve_config
from cluster.launch.devices import list_gpus, resolve_device


def resolve(gpus: list[str], can_use_gpus: bool = True, **values: Any) -> tuple[str, str]:
    return resolve_device(resolve_config(values), gpus, can_use_gpus)


def test_auto_takes_gpus_where_there_are_some() -> None:
    assert resolve(["0", "1"]) == ("cuda", "0,1")
    assert resolve([]) == ("cpu", "")
    assert resolve(["0"], can_use_gpus=False) == ("cpu", "")


def test_cpu_leaves_gpus_alone() -> None:
    assert resolve(["0"], device="cpu") == ("cpu", "")


def test_a_simulated_engine_needs_no_device_however_many_there_are() -> None:
    assert resolve(["0"], engine="simulated", data_parallel_size=16) == ("cpu", "")
    assert resolve(["0"], engine="simulated", device="cuda") == ("cpu", "")


def test_chosen_devices_mean_gpus() -> None:
    assert resolve(["0", "1", "2"], devices="2, 0", data_parallel_size=2) == ("cuda", "2,0")


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_more_replicas_than_gpus_are_refused(device: str) -> None:
    with pytest.raises(ConfigError, match="--dp 3 needs as many GPUs, and there are 2"):
        resolve(["0", "1"], device=device, data_parallel_size=3)


def test_cuda_without_a_gpu_or_a_build_for_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="there are 0"):
        resolve([], device="cuda")
    with pytest.raises(ConfigError, match="torch build"):
        resolve(["0"], can_use_gpus=False, device="cuda")


@pytest.mark.parametrize(
    ("visible", "gpus"), [("", []), ("-1", []), ("1,3", ["1", "3"]), ("GPU-8f2a", ["GPU-8f2a"])]
)
def test_only_visible_gpus_count(visible: str, gpus: list[str]) -> None:
    assert list_gpus({"CUDA_VISIBLE_DEVICES": visible}) == gpus
