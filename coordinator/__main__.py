"""`python -P -m coordinator --config cluster.json --incarnation 1`."""

import argparse
import signal
from pathlib import Path

from cluster.config import load_config
from cluster.telemetry.logs import configure_logging
from cluster.telemetry.metrics import join_metrics
from cluster.telemetry.process import prepare_process
from cluster.wire.sockets import new_context
from coordinator.coordinator import Coordinator


def main() -> None:
    """Run the coordinator until SIGTERM."""
    parser = argparse.ArgumentParser(prog="coordinator")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--incarnation", type=int, required=True)
    arguments = parser.parse_args()
    prepare_process("quadriga: coordinator")
    config = load_config(arguments.config)
    configure_logging("coordinator", config.launch.log_level, config.launch.log_format)
    join_metrics(Path(config.run_directory) / "metrics", "coordinator")
    context = new_context()
    coordinator = Coordinator(config, arguments.incarnation, context)
    signal.signal(signal.SIGTERM, lambda *_: coordinator.stop())
    coordinator.run()
    context.term()


if __name__ == "__main__":
    main()
