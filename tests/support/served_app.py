"""An application that listens on a port of its own."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import hypercorn.asyncio
from hypercorn.config import Config
from starlette.applications import Starlette


@asynccontextmanager
async def served(app: Starlette) -> AsyncIterator[str]:
    """The URL of the application while it is served."""
    stopping = asyncio.Event()
    config = Config()
    config.accesslog = config.errorlog = None
    config.graceful_timeout = 1
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        config.bind = [f"fd://{listener.detach()}"]
    serving = asyncio.create_task(
        hypercorn.asyncio.serve(app, config, shutdown_trigger=stopping.wait)  # type: ignore[arg-type] # its own Scope type
    )
    yield f"http://127.0.0.1:{port}"
    stopping.set()
    await serving
