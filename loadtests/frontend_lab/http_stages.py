"""What it costs to send: pieces over the real HTTP server, and answers over the whole application."""

import asyncio
import socket
import time
from contextlib import suppress
from statistics import median

import msgspec
from starlette.types import Receive, Scope, Send

from cluster.config import ClusterConfig
from frontend.app import build_app
from frontend.http_server import Application, HttpServer
from frontend.http_settings import hypercorn_settings
from frontend.metrics import FrontendMetrics
from frontend.model_info import load_model_info
from frontend.openai.sse import HEADERS
from frontend.streamed_body import StreamedBody
from frontend.tokenizer import load_tokenizer
from loadtests.frontend_lab.client_processes import ClientProcesses
from loadtests.frontend_lab.fed_engine import FedEngine
from loadtests.frontend_lab.measurement import LoadOptions, job_for
from loadtests.frontend_lab.stage_cost import StageCost
from loadtests.frontend_lab.streaming_client import LAST_EVENT, Job, Kind

PIECE = b"data: " + b"x" * 180 + b"\n\n"
"""As long as the event of a token."""
STREAMS = 32
PIECES = 500
OUTPUT_TOKENS = 256
CLOSE_SECONDS = 1.0


class PieceSender:
    """An application that answers everything with many small pieces, one a turn of the event loop."""

    def __init__(self, is_direct: bool) -> None:
        self._is_direct = is_direct

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or take part in the server's start and end."""
        if scope["type"] == "lifespan":
            for word in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{word}.complete"})
            return
        while (await receive()).get("more_body"):
            pass
        body = StreamedBody(scope if self._is_direct else {}, send)
        await body.begin(HEADERS)
        for _ in range(PIECES):
            await body.write(PIECE)
            await asyncio.sleep(0)
        await body.write(LAST_EVENT)
        await body.end()


async def measure_sending(config: ClusterConfig, repeats: int) -> list[StageCost]:
    """Of a piece through hypercorn and its socket, both ways; no middleware, no Starlette."""
    costs = []
    for is_direct, way in ((True, "directly"), (False, "by hypercorn's `send`")):
        job = Job("127.0.0.1", 0, "/", "{}", STREAMS, 1)
        cost = await _per_token(PieceSender(is_direct), config, job, STREAMS * PIECES, repeats)
        costs.append(StageCost(f"write a piece of 188 bytes, {way}, and the kernel's", cost))
    return costs


async def measure_application(
    config: ClusterConfig, token_ids: list[int], repeats: int
) -> list[StageCost]:
    """Of a token from the stream to the kernel through the whole application, requests included."""
    model = load_model_info(config)
    options = LoadOptions(streams=STREAMS, output_tokens=OUTPUT_TOKENS, answers_per_stream=1)
    engine = FedEngine(token_ids, FrontendMetrics(model.name, 0))
    feeding = asyncio.create_task(engine.feed())
    costs = []
    kinds: tuple[Kind, ...] = ("completions", "chat")
    for kind in kinds:
        app = build_app(config, model, load_tokenizer(config), engine)
        job = job_for("http://127.0.0.1:80", kind, options)
        cost = await _per_token(app, config, job, STREAMS * OUTPUT_TOKENS, repeats)
        costs.append(StageCost(f"all of it but ZeroMQ, {kind} of {OUTPUT_TOKENS} tokens", cost))
    feeding.cancel()
    with suppress(asyncio.CancelledError):
        await feeding
    return costs


async def _per_token(
    app: Application, config: ClusterConfig, job: Job, tokens: int, repeats: int
) -> float:
    listener = socket.create_server((job.host, 0))
    job = msgspec.structs.replace(job, port=listener.getsockname()[1])
    server = HttpServer(app, hypercorn_settings(config.frontend), listener.detach())
    await server.start()
    try:
        times = [await _thread_seconds(job) for _ in range(repeats)]
    finally:
        await server.close(CLOSE_SECONDS)
    return 1e6 * median(times) / tokens


async def _thread_seconds(job: Job) -> float:
    """What the job, done by another process, costs the thread of this event loop."""
    with await asyncio.to_thread(ClientProcesses, [job]) as clients:
        started_at = time.thread_time()
        await asyncio.to_thread(clients.run)
        return time.thread_time() - started_at
