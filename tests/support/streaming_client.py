"""A client that reads streams token by token and remembers when each came."""

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

import httpx


@dataclass
class Answer:
    """What one streamed completion gave."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)
    """When each chunk with text or tokens came."""
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    extension: dict[str, Any] | None = None
    is_done: bool = False
    error: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether the stream ended as it should."""
        return self.is_done and self.finish_reason is not None and not self.error

    @property
    def longest_gap_seconds(self) -> float:
        """Longest time between two chunks."""
        pairs = zip(self.arrivals, self.arrivals[1:], strict=False)
        return max((later - earlier for earlier, later in pairs), default=0.0)

    @property
    def num_migrations(self) -> int:
        """How often the answer went on in another engine."""
        return int((self.extension or {}).get("migrations", 0))


class StreamingClient:
    """Sends completions to one server, each over a connection of its own."""

    def __init__(self, url: str) -> None:
        self._client = httpx.AsyncClient(
            base_url=url,
            timeout=httpx.Timeout(120),
            trust_env=False,
            limits=httpx.Limits(max_keepalive_connections=0, max_connections=None),
        )

    async def __aenter__(self) -> "StreamingClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def complete(self, answer: Answer | None = None, **body: Any) -> Answer:
        """Stream one completion; what has come can be watched in `answer` meanwhile."""
        answer = answer if answer is not None else Answer()
        body = {"stream": True, "stream_options": {"include_usage": True}, "return_token_ids": True,
                "model": None, **body}  # fmt: skip
        body = {name: value for name, value in body.items() if value is not None}
        try:
            async with self._client.stream("POST", "/v1/completions", json=body) as response:
                if response.status_code != 200:
                    answer.error = f"{response.status_code} {(await response.aread()).decode()}"
                    return answer
                async for line in response.aiter_lines():
                    if line.startswith("data: "):
                        _take(answer, line.removeprefix("data: "))
        except httpx.HTTPError as error:
            answer.error = f"{type(error).__name__}: {error}"
        return answer

    async def complete_all(
        self,
        bodies: list[dict[str, Any]],
        concurrency: int,
        answers: list[Answer] | None = None,
        ramp_seconds: float = 0.0,
    ) -> list[Answer]:
        """Stream all of these, so many at a time; the first ones begin spread over the ramp."""
        answers = answers if answers is not None else []
        answers.extend(Answer() for _ in bodies)
        slots = asyncio.Semaphore(concurrency)

        async def one(position: int, answer: Answer, body: dict[str, Any]) -> None:
            async with slots:
                if position < concurrency:
                    await asyncio.sleep(ramp_seconds * position / concurrency)
                await self.complete(answer, **body)

        pairs = zip(answers, bodies, strict=True)
        await asyncio.gather(*(one(position, *pair) for position, pair in enumerate(pairs)))
        return answers


def _take(answer: Answer, data: str) -> None:
    if data == "[DONE]":
        answer.is_done = True
        return
    event = json.loads(data)
    if "error" in event:
        answer.error = event["error"]["message"]
        return
    answer.usage = event.get("usage") or answer.usage
    answer.extension = event.get("quadriga") or answer.extension
    for choice in event["choices"]:
        answer.text += choice["text"]
        answer.token_ids += choice.get("token_ids") or []
        answer.finish_reason = choice["finish_reason"] or answer.finish_reason
        if choice["text"] or choice.get("token_ids"):
            answer.arrivals.append(time.monotonic())
