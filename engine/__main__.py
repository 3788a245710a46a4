"""`python -P -m engine --config cluster.json --rank 3 --incarnation 1 [--cores 0,1]`."""

import argparse
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path

from cluster.config import load_config
from cluster.telemetry.logs import configure_logging
from cluster.telemetry.metrics import join_metrics
from cluster.telemetry.process import prepare_process
from cluster.wire.messages import EnginePhase
from engine.proc import LoadedRunner, run_engine


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
        from engine.execution.runner import ModelRunner  # seconds of import, while reporting

        runner = ModelRunner(config, lambda share: on_progress(EnginePhase.LOADING, share))
        # What is loaded stays: neither a step nor the end of the process is to search it for garbage.
        gc.collect()
        gc.freeze()
        return runner

    return run_engine(config, rank, incarnation, load)


if __name__ == "__main__":
    sys.exit(main())
