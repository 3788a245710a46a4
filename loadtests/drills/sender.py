"""Sends requests over the lean client and writes them into the history."""

import asyncio
import time
from typing import Any

import msgspec

from loadtests.drills.answer import AnswerReader
from loadtests.drills.history import Exchange, History
from loadtests.http_client import BrokenConnection, HttpClient
from loadtests.sse import SseParser

ANSWER_SECONDS = 150.0
"""Longer than the queue timeout of a frontend: an answer that takes so long has been lost."""


class Sender:
    """Sends one request at a time, any number of them concurrently; never raises for one of them."""

    def __init__(
        self,
        url: str,
        history: History,
        api_key: str | None = None,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._http = HttpClient(url, api_key)
        self._history = history
        self._answer_seconds = answer_seconds

    async def send(
        self, kind: str, path: str, body: dict[str, Any], exchange: Exchange | None = None
    ) -> Exchange:
        """Send `body`, read its whole answer, and give the exchange, which the history has too.

        A caller who wants to watch the answer gives an exchange made by `new_exchange`.
        """
        exchange = exchange or self.new_exchange(kind, path, body)
        reader = AnswerReader(exchange)
        try:
            async with asyncio.timeout(self._answer_seconds):
                await self._exchange(exchange, reader)
        except BrokenConnection as error:
            reader.break_off("broken", str(error), time.monotonic())
        except TimeoutError:
            reader.break_off(
                "timeout", f"no whole answer in {self._answer_seconds:g} s", time.monotonic()
            )
        return exchange

    def new_exchange(self, kind: str, path: str, body: dict[str, Any]) -> Exchange:
        """An exchange that is about to begin, entered in the history."""
        exchange = Exchange(kind, path, body, time.monotonic())
        self._history.exchanges.append(exchange)
        return exchange

    async def _exchange(self, exchange: Exchange, reader: AnswerReader) -> None:
        body = msgspec.json.encode(exchange.body)
        async with self._http.request("POST", exchange.path, body) as response:
            exchange.first_byte_at = time.monotonic()
            exchange.status, exchange.headers = response.status, response.headers
            if "event-stream" in response.headers.get("content-type", ""):
                parser = SseParser()
                async for piece in response.pieces:
                    now = time.monotonic()
                    for data in parser.feed(piece):
                        reader.add_event(data, now)
            else:
                reader.add_body(response.status, await response.read(), time.monotonic())
            reader.finish(time.monotonic())
