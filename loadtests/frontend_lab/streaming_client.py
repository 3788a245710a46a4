"""A client that costs as little as it can: it counts bytes and events, and looks at nothing else.

`python -m loadtests.frontend_lab.streaming_client` reads a `Job` from its input, a line of JSON, and says
`ready`. At the next line it sends, and prints a `Count`. So its own start is outside of what is measured.
"""

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from typing import Literal, cast

import msgspec

EVENT = b"data: "
LAST_EVENT = b"data: [DONE]\n\n"
TAIL_BYTES = 64
"""At an answer's end: the last event, its frame and the last chunk are in there."""

Kind = Literal["completions", "chat"]
PATHS: dict[Kind, str] = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}


class Job(msgspec.Struct, frozen=True):
    """So many answers one after the other, on each of so many streams."""

    host: str
    port: int
    path: str
    body: str
    streams: int
    answers_per_stream: int

    @property
    def request(self) -> bytes:
        """The bytes of one request, which asks for a connection of its own."""
        body = self.body.encode()
        head = (
            f"POST {self.path} HTTP/1.1\r\nHost: {self.host}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


class Count(msgspec.Struct):
    """What came back."""

    answers: int = 0
    """Whole ones."""
    failed: int = 0
    events: int = 0
    """Those of whole answers and of others, the last ones included, which are no JSON."""
    num_bytes: int = 0
    failure: str = ""
    """The beginning of an answer that was not whole."""

    def add(self, other: "Count") -> None:
        """Take in what another client counted."""
        self.answers += other.answers
        self.failed += other.failed
        self.events += other.events
        self.num_bytes += other.num_bytes
        self.failure = self.failure or other.failure


class Answer(asyncio.Protocol):
    """One connection, on which one answer is asked for."""

    def __init__(self, request: bytes, count: Count, on_end: Callable[[], None]) -> None:
        self._request = request
        self._count = count
        self._on_end = on_end
        self._head = b""
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        cast("asyncio.Transport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        """Count events, also those that a cut between two packets goes through."""
        self._count.num_bytes += len(data)
        self._count.events += (self._tail[1 - len(EVENT) :] + data).count(EVENT)
        self._head = self._head or data[:500]
        self._tail = (self._tail + data[-TAIL_BYTES:])[-TAIL_BYTES:]

    def connection_lost(self, exc: Exception | None) -> None:
        """The answer is whole if its last event is there."""
        if LAST_EVENT in self._tail:
            self._count.answers += 1
        else:
            self._count.failed += 1
            self._count.failure = self._head.decode(errors="replace") or repr(exc)
        self._on_end()


async def run(job: Job) -> Count:
    """Do the job."""
    count, request, loop = Count(), job.request, asyncio.get_running_loop()

    async def stream() -> None:
        for _ in range(job.answers_per_stream):
            ended = asyncio.Event()
            make_answer = partial(Answer, request, count, ended.set)
            await loop.create_connection(make_answer, job.host, job.port)
            await ended.wait()

    await asyncio.gather(*(stream() for _ in range(job.streams)))
    return count


def main() -> None:
    """Wait for the job, and for the word to begin."""
    job = msgspec.json.decode(sys.stdin.readline(), type=Job)
    print("ready", flush=True)
    sys.stdin.readline()
    print(msgspec.json.encode(asyncio.run(run(job))).decode(), flush=True)


if __name__ == "__main__":
    main()
