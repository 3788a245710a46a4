"""`python -P -m frontend --config cluster.json --index 0 --incarnation 1 --listen-fd 5`."""

import argparse
import asyncio
import gc
import random
import sys
from collections.abc import Callable
from pathlib import Path

from cluster.config import ClusterConfig, load_config
from cluster.telemetry.logs import configure_logging
from cluster.telemetry.metrics import join_metrics
from cluster.telemetry.process import prepare_process
from cluster.wire.sockets import new_context
from frontend.app import build_app
from frontend.balancer import Balancer
from frontend.client import DPLBClient
from frontend.metrics import FrontendMetrics
from frontend.model_info import load_model_info
from frontend.server import FrontendServer
from frontend.tokenizer import load_tokenizer

SWITCH_SECONDS = 0.001
"""After so long a thread that tokenizes gives the interpreter's lock to the event loop, which has but little
to do for each token, and would wait 5 ms for every turn."""

YOUNG_OBJECTS = 20_000
"""So many more make a search for garbage worth its time: nearly all that a token or a request needs goes
by itself."""


def main() -> int:
    """Run one frontend until SIGTERM or SIGUSR1; 0 if no request had to be cut."""
    parser = argparse.ArgumentParser(prog="frontend")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--index", type=int, required=True)
    parser.add_argument("--incarnation", type=int, required=True)
    parser.add_argument("--listen-fd", type=int, required=True)
    arguments = parser.parse_args()
    index, incarnation = arguments.index, arguments.incarnation
    prepare_process(f"quadriga: frontend {index}")
    sys.setswitchinterval(SWITCH_SECONDS)
    config = load_config(arguments.config)
    configure_logging(
        f"frontend {index}.{incarnation}", config.launch.log_level, config.launch.log_format
    )
    join_metrics(Path(config.run_directory) / "metrics", f"frontend-{index}")
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        all_finished = runner.run(_serve(config, index, incarnation, arguments.listen_fd))
    return 0 if all_finished else 1


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's event loop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(config: ClusterConfig, index: int, incarnation: int, listen_fd: int) -> bool:
    context = new_context()
    model_info = load_model_info(config)
    metrics = FrontendMetrics(model_info.name, index)
    balancer = Balancer(config.frontend.routing, random.Random())
    client = DPLBClient(config, index, incarnation, context, balancer, metrics)
    app = build_app(config, model_info, load_tokenizer(config), client)
    # What is loaded stays: searching it for garbage would hold up all streams again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
    all_finished = await FrontendServer(config, client, app, listen_fd).run()
    context.term()
    return all_finished


if __name__ == "__main__":
    sys.exit(main())
