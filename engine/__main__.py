"""`python -P -m engine --config cluster.json --rank 3 --incarnation 1 [--cores 0,1]`."""

import argparse
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.config import ClusterConfig, load_config
from cluster.fault_plan import faults_for
from cluster.telemetry.logs import configure_logging
from cluster.telemetry.metrics import gauge, join_metrics
from cluster.telemetry.process import prepare_process
from cluster.wire.messages import EnginePhase
from engine.proc import LoadedRunner, run_engine

if TYPE_CHECKING:
    from engine.execution.runner import ModelRunner


def load_runner(
    config: ClusterConfig,
    rank: int,
    incarnation: int,
    on_progress: Callable[[EnginePhase, float], None],
) -> LoadedRunner:
    """The configured kind of runner, with the faults that this engine is to have."""
    faults = faults_for(config.engine.inject_fault, rank, incarnation)
    if not faults:
        return _load_model(config, rank, on_progress)
    from engine.fault_injection import FaultyRunner, announce_faults  # never without need

    announce_faults(faults)
    return FaultyRunner(_load_model(config, rank, on_progress), faults)


def _load_model(
    config: ClusterConfig, rank: int, on_progress: Callable[[EnginePhase, float], None]
) -> LoadedRunner:
    if config.engine.engine == "simulated":
        from engine.simulation.runner import SimulatedModelRunner

        gauge("engine_simulated").labels(str(rank)).set(1)
        return SimulatedModelRunner(config)
    runner_class = _import_runner_class()
    return runner_class(config, lambda share: on_progress(EnginePhase.LOADING, share))


def _import_runner_class() -> "type[ModelRunner]":
    """The runner of real models, with torch and transformers: seconds, while others are told."""
    # What is imported stays. Were it searched for garbage while it is imported and loads, and once
    # more after that, it would take a fifth of a second of each engine's start.
    gc.disable()
    from engine.execution.lean_import import import_transformers

    import_transformers()
    from engine.execution.runner import ModelRunner

    gc.enable()
    gc.freeze()
    return ModelRunner


def main() -> int:
    """Run one engine until SIGTERM; the process's exit code."""
    parser = argparse.ArgumentParser(prog="engine")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--incarnation", type=int, required=True)
    parser.add_argument("--cores", help="CPU cores of this engine, such as 0,1")
    arguments = parser.parse_args()
    rank, incarnation = arguments.rank, arguments.incarnation
    prepare_process(f"quadriga: engine {rank}")
    if arguments.cores:
        os.sched_setaffinity(0, {int(core) for core in arguments.cores.split(",")})
    config = load_config(arguments.config)
    configure_logging(
        f"engine {rank}.{incarnation}", config.launch.log_level, config.launch.log_format
    )
    join_metrics(Path(config.run_directory) / "metrics", f"engine-{rank}")

    def load(on_progress: Callable[[EnginePhase, float], None]) -> LoadedRunner:
        on_progress(EnginePhase.LOADING, 0.0)
        runner = load_runner(config, rank, incarnation, on_progress)
        # What is loaded stays as well, and this is all that a simulated engine has: neither a step nor
        # the end of the process is to search it for garbage.
        gc.collect()
        gc.freeze()
        return runner

    return run_engine(config, rank, incarnation, load)


if __name__ == "__main__":
    sys.exit(main())
