"""Which processes a cluster consists of, and how each is started. Pure: values in, values out."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cluster.config import ClusterConfig
from cluster.telemetry.metrics import DIRECTORY_VARIABLE
from cluster.wire.messages import Role

SPINS_BEFORE_SLEEP = 2000
"""Of a kernel's thread that waits for the others."""


@dataclass(frozen=True)
class ProcessSpec:
    """One process of the cluster: what never changes from one start of it to the next."""

    role: Role
    index: int
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    """Added to the launcher's own."""
    inherits_listener: bool = False
    """Whether it is given the HTTP socket."""

    @property
    def name(self) -> str:
        """Its name for people, e.g. `engine 3`."""
        label = self.role.name.lower()
        return label if self.role is Role.COORDINATOR else f"{label} {self.index}"

    @property
    def file_name(self) -> str:
        """Its name in file names and metrics, e.g. `engine-3`."""
        return self.name.replace(" ", "-")

    def command_line(self, incarnation: int, listen_fd: int) -> list[str]:
        """The command that starts one incarnation of it."""
        line = [*self.command, "--incarnation", str(incarnation)]
        if self.inherits_listener:
            line += ["--listen-fd", str(listen_fd)]
        return line


def make_plan(
    config: ClusterConfig, config_path: Path, metrics_directory: Path, cores: Sequence[int]
) -> list[ProcessSpec]:
    """The processes of this cluster in the order of their start, `cores` divided over its engines."""
    common = {
        DIRECTORY_VARIABLE: str(metrics_directory),
        "HF_HUB_OFFLINE": "1",
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    read_config = ("--config", str(config_path))

    def command(module: str, *arguments: str) -> tuple[str, ...]:
        # -P, or a folder called `engine` in the working directory would be taken for ours.
        return (sys.executable, "-P", "-m", module, *read_config, *arguments)

    coordinator = ProcessSpec(Role.COORDINATOR, 0, command("coordinator"), common)
    engines = [
        ProcessSpec(
            Role.ENGINE,
            rank,
            command("engine", "--rank", str(rank), *_core_arguments(config, rank, cores)),
            common | _engine_environment(config, rank, len(cores)),
        )
        for rank in range(config.engine.data_parallel_size)
    ]
    frontends = [
        ProcessSpec(
            Role.FRONTEND,
            index,
            command("frontend", "--index", str(index)),
            common,
            inherits_listener=True,
        )
        for index in range(config.num_frontends)
    ]
    return [coordinator, *engines, *frontends]


def _core_share(config: ClusterConfig, num_cores: int) -> int:
    return num_cores // config.engine.data_parallel_size


def _core_arguments(config: ClusterConfig, rank: int, cores: Sequence[int]) -> tuple[str, ...]:
    """`--cores 2,3`: an engine's own cores, where there are enough for its threads to have some."""
    share = _core_share(config, len(cores))
    threads = config.engine.threads_per_engine or share
    if config.engine.device != "cpu" or share == 0 or threads > share:
        return ()
    own = sorted(cores)[rank * share : (rank + 1) * share]
    return ("--cores", ",".join(map(str, own)))


def _engine_environment(config: ClusterConfig, rank: int, num_cores: int) -> dict[str, str]:
    engine = config.engine
    threads = str(engine.threads_per_engine or max(1, _core_share(config, num_cores)))
    environment = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    if engine.device == "cpu":
        # Threads that wait by spinning would take the time of the other replicas' threads. But to wake
        # one that sleeps takes 40 µs, hundreds of times a step, so they spin for about as long first.
        waiting = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": str(SPINS_BEFORE_SLEEP)}
        return environment | waiting | {"CUDA_VISIBLE_DEVICES": ""}
    devices = engine.devices.split(",") if engine.devices else []
    device = devices[rank].strip() if devices else str(rank)
    return environment | {"CUDA_VISIBLE_DEVICES": device}
