"""Brings what has arrived to the clients that wait for it, without a turn of their tasks."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from frontend.request_stream import RequestStream


class Courier:
    """Lets consumers take and send what one turn of the event loop has brought, all of them together.

    To wake a task for a token takes longer than to make its text. So whoever waits for a stream lends it
    a `Consumer` meanwhile. What all of them have taken is counted once, before any of it is sent.
    """

    def __init__(
        self, counted_together: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        """Consumers take within `counted_together`."""
        self._counted_together = counted_together
        self._due: list[RequestStream] = []

    def call(self, stream: RequestStream) -> None:
        """The stream has news, and a consumer waits for them."""
        if not self._due:
            asyncio.get_running_loop().call_soon(self._bring)
        self._due.append(stream)

    def _bring(self) -> None:
        due, self._due = self._due, []
        taken: list[RequestStream] = []
        try:
            with self._counted_together():
                taken += [stream for stream in due if stream.hand_over()]
        finally:  # metrics that cannot be written cost no client its tokens
            for stream in taken:
                stream.send()
