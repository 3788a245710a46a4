"""What small ASGI applications of tests say to their server about their own life."""

from starlette.types import Receive, Send


async def answer_lifespan(receive: Receive, send: Send) -> None:
    """Start and stop as asked, with nothing to do for it."""
    for event in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{event}.complete"})
