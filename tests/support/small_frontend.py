"""A frontend's real server around an application that needs no engines.

`python -m tests.support.small_frontend RUN_DIRECTORY INDEX LISTEN_FD`. `GET /pid` answers with the
process id, `GET /stream` with the numbers 0 to 19, one every 50 ms.
"""

import asyncio
import os
import sys
from pathlib import Path
from random import Random

from starlette.types import Receive, Scope, Send

from cluster.config import ClusterConfig
from cluster.telemetry.process import prepare_process
from cluster.wire.sockets import new_context
from frontend.__main__ import loop_factory
from frontend.balancer import Balancer
from frontend.client import DPLBClient
from frontend.metrics import FrontendMetrics
from frontend.server import FrontendServer
from tests.support.lifespan import answer_lifespan

STREAMED_LINES = 20
STREAM_STEP_SECONDS = 0.05


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the process id, or slowly."""
    if scope["type"] == "lifespan":
        await answer_lifespan(receive, send)
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/stream":
        for number in range(STREAMED_LINES):
            await send({"type": "http.response.body", "body": b"%d\n" % number, "more_body": True})
            await asyncio.sleep(STREAM_STEP_SECONDS)
    await send({"type": "http.response.body", "body": b"%d" % os.getpid()})


async def serve(run_directory: Path, index: int, listen_fd: int) -> bool:
    """Serve until told to end; whether all requests finished."""
    context = new_context()
    config = ClusterConfig(run_directory=str(run_directory))
    balancer = Balancer("random", Random(0))
    client = DPLBClient(config, index, 1, context, balancer, FrontendMetrics("m", index))
    all_finished = await FrontendServer(config, client, application, listen_fd).run()
    context.term()
    return all_finished


if __name__ == "__main__":
    prepare_process("quadriga: small frontend")
    serving = serve(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        sys.exit(0 if runner.run(serving) else 1)
