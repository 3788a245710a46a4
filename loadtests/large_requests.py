"""Requests that are a burden, posted one after the other by a process of their own.

`python -m loadtests.large_requests URL MODEL KIND SIZE SECONDS`, which makes its request, says that it is ready,
posts from the moment at which it is told to, and prints how often each status came. What large requests cost
their sender would otherwise be measured with what they cost others.
"""

import asyncio
import os
import sys
import time
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec

from loadtests.http_client import BrokenConnection, HttpClient
from loadtests.workload import Ask, token_completion

KEY_VARIABLE = "OPENAI_API_KEY"
READY = b"ready\n"
PAUSE_SECONDS = 2.0
"""Between an answer and the next request. What is refused at once would otherwise be sent dozens of times
a second, which is a flood, and another matter."""
VOCABULARY_SIZE = 200
"""Token ids are below this, so that any model has them."""


def large_body(model: str, num_bytes: int) -> Ask:
    """A chat of one long text."""
    message = {"role": "user", "content": "a word " * (num_bytes // 7)}
    body = {"model": model, "messages": [message], "max_tokens": 1}
    return Ask("/v1/chat/completions", msgspec.json.encode(body))


def long_prompt(model: str, num_tokens: int) -> Ask:
    """A completion of many token ids."""
    return token_completion(model, [i % VOCABULARY_SIZE for i in range(num_tokens)], 1)


KINDS = {"body": large_body, "prompt": long_prompt}


class Poster(NamedTuple):
    """A process that has its request ready."""

    process: Process

    async def post(self) -> dict[str, int]:
        """Let it post; how often each status came."""
        told, _ = await self.process.communicate(b"post\n")
        return msgspec.json.decode(told, type=dict[str, int])


@asynccontextmanager
async def poster(
    url: str, api_key: str | None, model: str, kind: str, size: int, seconds: float
) -> AsyncIterator[Poster]:
    """Another process, ready to post requests of a kind for so long; it ends with the block."""
    process = await create_subprocess_exec(
        sys.executable, "-m", "loadtests.large_requests", url, model, kind, str(size), str(seconds),
        env=os.environ | {KEY_VARIABLE: api_key or ""}, stdin=PIPE, stdout=PIPE,
    )  # fmt: skip
    assert process.stdout is not None, "it is a pipe"
    try:
        await process.stdout.readuntil(READY)
        yield Poster(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def post_for(http: HttpClient, ask: Ask, seconds: float) -> dict[str, int]:
    """Post the same request again and again, with pauses, for so long and once at least."""
    counts: dict[str, int] = {}
    until = time.monotonic() + seconds
    while not counts or time.monotonic() < until:
        try:
            async with http.request("POST", ask.path, ask.body) as response:
                await response.read()
                status = str(response.status)
        except BrokenConnection:
            status = "broken"
        counts[status] = counts.get(status, 0) + 1
        await asyncio.sleep(PAUSE_SECONDS)
    return counts


def main() -> None:
    """Make the request, wait for the word, post, and print the counts."""
    url, model, kind, size, seconds = sys.argv[1:]
    http = HttpClient(url, os.environ.get(KEY_VARIABLE) or None)
    ask = KINDS[kind](model, int(size))
    print(READY.decode(), end="", flush=True)
    if not sys.stdin.readline():
        return
    counts = asyncio.run(post_for(http, ask, float(seconds)))
    print(msgspec.json.encode(counts).decode())


if __name__ == "__main__":
    main()
