"""Drills of hostility over HTTP: requests that are none, and bodies of every wrong kind."""

import asyncio
import contextlib
import random
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec

from loadtests.drills.drill import Drill
from loadtests.drills.stage import Stage

PATHS = ("/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize")
WRONG_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**70, 1e308, "", "x" * 10_000, [], [None], [[]], [[[]]], {}, {"a": {"b": []}},
    "\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "replace"), "\x00", [2**40], [-1], ["a", 1],
)  # fmt: skip
FIELDS = ("prompt", "messages", "model", "max_tokens", "temperature", "top_p", "top_k", "n", "stop", "seed",
          "logprobs", "logit_bias", "stream", "stream_options", "echo", "presence_penalty",
          "frequency_penalty", "min_tokens", "stop_token_ids", "response_format", "tools", "priority",
          "cache_salt", "data_parallel_rank", "tokens", "add_special_tokens")  # fmt: skip
AT_ONCE = 8
ANSWER_SECONDS = 30.0


def wrong_bodies(source: random.Random) -> Iterator[bytes]:
    """Bodies that are no JSON, no object, or one with a field of the wrong kind."""
    yield from (
        b"",
        b"{",
        b"null",
        b"[]",
        b"1",
        b'"x"',
        b"\xff\xfe",
        b"{}",
        b"[" * 100_000,
        b'{"a":' * 50_000,
    )
    yield b'{"prompt": "x", "max_tokens": NaN}'
    yield b'{"prompt": "x", "max_tokens": 1e999}'
    yield b'{"prompt": "x", "prompt": ["y"]}'
    yield b'{"prompt": "\\ud800", "max_tokens": 2}'
    yield source.randbytes(3000)
    base = {"prompt": "x", "messages": [{"role": "user", "content": "x"}], "max_tokens": 2}
    for field in FIELDS:
        for value in WRONG_VALUES:
            with contextlib.suppress(msgspec.EncodeError, OverflowError):
                yield msgspec.json.encode({**base, field: value})


def wrong_requests(source: random.Random) -> Iterator[bytes]:
    """Bytes that are no HTTP request, or a strange one."""
    post = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    yield from (
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
    )
    yield b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 10_000 + b"\r\n"
    yield b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n"
    yield b"GET /%00%ff/../../etc HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    yield b"BREW /v1/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    yield post + b"Content-Length: 99999999999999999999\r\n\r\n{}"
    yield post + b"Content-Length: -1\r\n\r\n{}"
    yield post + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}    "
    yield post + b"Content-Length: 100\r\n\r\n{"
    yield post + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"
    yield post + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}"
    yield post + b"Expect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    yield (
        post + b"Authorization: Bearer \xff\xfe\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    )
    yield b"GET /v1/models HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    yield b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + source.randbytes(500)
    yield b"\x16\x03\x01\x02\x00" + source.randbytes(500)
    for _ in range(30):
        yield source.randbytes(source.randrange(1, 4000))


async def fuzz_http(stage: Stage) -> None:
    """Everything that is wrong, to every path, beside a load that goes on."""
    # Some bodies are legal and ask for as long an answer as there can be: it is to be a short one.
    await stage.launch("--max-model-len=256", "--simulated-step-seconds=0.005")
    source = random.Random(5)
    parts = urlsplit(stage.cluster.url)
    address = (parts.hostname or "", parts.port or 80)
    async with stage.load(concurrency=6, kinds=["greedy", "chat"]) as load:
        await load.until_streaming()
        stage.fault("malformed requests")
        statuses = await ask_wrongly(
            address, list(wrong_bodies(source))[:: 1 if stage.scale >= 1 else 4]
        )
        raw = [
            await asyncio.to_thread(send_raw, address, request, 2.0)
            for request in wrong_requests(source)
        ]
        await load.until_tokens(300)
    for status in sorted(set(statuses), key=str):
        stage.figure(f"answers {status}", statuses.count(status))
    wrong = [status for status in statuses if status is None or status >= 500]
    stage.check("no body is answered with 5xx or not at all", not wrong, f"{wrong[:10]}")
    raw_wrong = [status for status in raw if status is not None and status >= 500]
    stage.figure("requests that are no HTTP", len(raw))
    stage.check("nor are requests that are no HTTP", not raw_wrong, f"{raw_wrong}")
    await stage.settle(exact_metrics=False)


async def ask_wrongly(address: tuple[str, int], bodies: list[bytes]) -> list[int | None]:
    """The statuses of the answers to all bodies on all paths."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(path: str, body: bytes) -> int | None:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        async with slots:
            return await asyncio.to_thread(
                send_raw, address, head.encode() + body, ANSWER_SECONDS, is_whole=True
            )

    return await asyncio.gather(*(one(path, body) for path in PATHS for body in bodies))


def send_raw(
    address: tuple[str, int], request: bytes, seconds: float, is_whole: bool = False
) -> int | None:
    """Send bytes and give the status of the answer; None if there is none. Reads all if `is_whole`."""
    received = b""
    with contextlib.suppress(OSError), socket.create_connection(address, timeout=seconds) as raw:
        with contextlib.suppress(OSError):
            raw.sendall(request)
        while (piece := raw.recv(65_536)) and (is_whole or b"\r\n" not in received):
            received = (received + piece)[:200]
    words = received.split(b"\r\n")[0].split(b" ")
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else None


DRILLS = (
    Drill(
        "fuzz-http",
        "Malformed HTTP and JSON of every kind: 4xx, never 5xx, no process ends, others are served.",
        fuzz_http,
        harmless=True,
    ),
)
