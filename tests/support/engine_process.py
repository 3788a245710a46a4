"""A real engine process, with sockets, threads and scheduler, over the simulated model.

`python -m tests.support.engine_process --config cluster.json --rank 0 --incarnation 1`
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from cluster.config import load_config
from cluster.fault_plan import faults_for
from cluster.telemetry.logs import configure_logging
from cluster.telemetry.process import prepare_process
from cluster.wire.messages import EnginePhase
from engine.fault_injection import FaultyRunner
from engine.proc import LoadedRunner, run_engine
from engine.scheduling.output import RunResult, SchedulerOutput
from tests.support.simulated_runner import SimulatedRunner

VOCAB_SIZE = 1000
NUM_BLOCKS = 256
MAX_MODEL_LEN = 1024
FAULT_TOKEN = 666
"""A prompt [FAULT_TOKEN, r] makes the forward pass of engine r raise, as a device error would."""
ANY_RANK = 667
"""In place of r: of every engine."""


class PacedRunner(SimulatedRunner):
    """The simulated model, at a pace that leaves time to kill its process."""

    max_model_len = MAX_MODEL_LEN
    model_fingerprint = "simulated"

    def __init__(
        self, block_size: int, step_seconds: float, rank: int, overlaps_steps: bool
    ) -> None:
        super().__init__(NUM_BLOCKS, block_size, VOCAB_SIZE)
        self.overlaps_steps = overlaps_steps
        self._step_seconds = step_seconds
        self._faults = ([FAULT_TOKEN, rank], [FAULT_TOKEN, ANY_RANK])

    def execute(self, work: SchedulerOutput) -> list[RunResult]:
        """Compute a step, slowly."""
        time.sleep(self._step_seconds)
        if any(s.request.token_ids[:2] in self._faults for s in work.scheduled):
            raise RuntimeError("the device has failed")
        return super().execute(work)


def main() -> int:
    """Run one engine until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--incarnation", type=int, required=True)
    parser.add_argument("--step-seconds", type=float, default=0.005)
    arguments = parser.parse_args()
    prepare_process(f"quadriga: engine {arguments.rank}")
    config = load_config(arguments.config)
    configure_logging(f"engine {arguments.rank}.{arguments.incarnation}", "info")

    def load(on_progress: Callable[[EnginePhase, float], None]) -> LoadedRunner:
        on_progress(EnginePhase.LOADING, 0.5)
        runner = PacedRunner(
            config.engine.block_size, arguments.step_seconds, arguments.rank,
            bool(config.engine.async_scheduling),
        )  # fmt: skip
        faults = faults_for(config.engine.inject_fault, arguments.rank, arguments.incarnation)
        return FaultyRunner(runner, faults) if faults else runner

    return run_engine(config, arguments.rank, arguments.incarnation, load)


if __name__ == "__main__":
    sys.exit(main())
