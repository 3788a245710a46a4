"""Requests, one after the other on connections that are kept."""

import asyncio
from collections import Counter

import httpx

from tests.support.waiting import wait_until_async


class SteadyLoad:
    """Runs while it is entered, and counts how the requests ended: by status, or by error."""

    def __init__(self, url: str, num_connections: int = 16, max_tokens: int = 1) -> None:
        self._body = {"prompt": [5, 6, 7], "max_tokens": max_tokens, "ignore_eos": True}
        self._num_connections = num_connections
        self._client = httpx.AsyncClient(
            base_url=url,
            timeout=60,
            trust_env=False,
            limits=httpx.Limits(
                max_connections=num_connections, max_keepalive_connections=num_connections
            ),
        )
        self._is_over = False
        self.outcomes: Counter[str] = Counter()

    async def __aenter__(self) -> "SteadyLoad":
        self._tasks = [asyncio.create_task(self._ask_on()) for _ in range(self._num_connections)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over = True
        await asyncio.gather(*self._tasks)
        await self._client.aclose()

    async def wait_for_more(self, count: int, seconds: float = 60.0) -> None:
        """Return once so many more requests have ended."""
        goal = self.outcomes.total() + count
        await wait_until_async(lambda: self.outcomes.total() >= goal, seconds)

    async def _ask_on(self) -> None:
        while not self._is_over:
            try:
                answer = await self._client.post("/v1/completions", json=self._body)
                self.outcomes[str(answer.status_code)] += 1
            except httpx.HTTPError as error:
                self.outcomes[f"{type(error).__name__}: {error}"] += 1
