"""What large requests of some clients cost the streams of others: the `interference` command.

Streams run for a while with nothing beside them, and then beside a client that posts large bodies and one
that posts long prompts. What they feel is the 99th percentile of the gaps between their tokens.
"""

import argparse
import asyncio
import gc
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import NamedTuple

import msgspec

from loadtests.arguments import output_file, positive_float, positive_int, url
from loadtests.client import StreamingClient
from loadtests.http_client import BrokenConnection, HttpClient
from loadtests.json_report import STANDARD_OUTPUT, write_json
from loadtests.large_requests import VOCABULARY_SIZE, poster
from loadtests.record import RequestRecord
from loadtests.report import percentile
from loadtests.workload import Ask, random_token_prompts

FELT_SHARE = 0.99
LINE_SHARE = 0.2
"""By so much the gaps may grow."""


class Interference(msgspec.Struct, frozen=True):
    """What the streams felt, and what was done meanwhile."""

    quiet_p99_seconds: float
    disturbed_p99_seconds: float
    posts: dict[str, int]
    """Answers to the large requests, by kind and status."""
    failed_streams: int

    @property
    def growth(self) -> float:
        """By which share the gaps grew."""
        return self.disturbed_p99_seconds / self.quiet_p99_seconds - 1

    @property
    def is_kept(self) -> bool:
        """Whether that is within the line, and no stream was harmed."""
        return self.growth <= LINE_SHARE and not self.failed_streams


class InterferenceOptions(NamedTuple):
    """What the command was asked for."""

    url: str
    api_key: str | None
    model: str | None
    streams: int
    output_tokens: int
    seconds: float
    body_bytes: int
    prompt_tokens: int


async def measure(options: InterferenceOptions) -> Interference:
    """Run both phases. Raises BrokenConnection if the server is not there."""
    client = StreamingClient(HttpClient(options.url, options.api_key), 10 * options.seconds + 60)
    model = options.model or await client.first_model()
    asks = random_token_prompts(
        model, options.streams, input_tokens=32, output_tokens=options.output_tokens,
        prefix_share=0.0, vocabulary_size=VOCABULARY_SIZE, seed=0,
    )  # fmt: skip
    sizes = {"body": options.body_bytes, "prompt": options.prompt_tokens}
    async with AsyncExitStack() as beside:
        posters = [
            await beside.enter_async_context(
                poster(options.url, options.api_key, model, kind, size, options.seconds)
            )
            for kind, size in sizes.items()
        ]
        await stream_for(client, asks, 0.0)
        quiet = await stream_for(client, asks, options.seconds)
        posting = asyncio.gather(*(one.post() for one in posters))
        disturbed = await stream_for(client, asks, options.seconds)
        counts = await posting
    posts = {
        f"{kind} {status}": number
        for kind, counted in zip(sizes, counts, strict=True)
        for status, number in counted.items()
    }
    failed = sum(record.error_kind is not None for record in (*quiet, *disturbed))
    return Interference(felt_gap(quiet), felt_gap(disturbed), posts, failed)


async def stream_for(
    client: StreamingClient, asks: Sequence[Ask], seconds: float
) -> list[RequestRecord]:
    """One answer after the other to each ask, all asks at once, for so long; one answer at least."""
    until = time.monotonic() + seconds

    async def repeat(ask: Ask) -> list[RequestRecord]:
        records = [await client.complete(ask, time.monotonic())]
        while time.monotonic() < until:
            records.append(await client.complete(ask, time.monotonic()))
        return records

    with _without_collections():
        return [record for some in await asyncio.gather(*map(repeat, asks)) for record in some]


@contextmanager
def _without_collections() -> Iterator[None]:
    """No search for garbage in what is kept of the streams: their gaps would grow by what it takes."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def felt_gap(records: Sequence[RequestRecord]) -> float:
    """The gap between tokens that one in a hundred exceeds. Raises BrokenConnection if there is none."""
    gaps = sorted(gap for record in records for gap in record.itl_seconds)
    if not gaps:
        failed = next((record for record in records if record.error_kind is not None), None)
        raise BrokenConnection(failed.error_detail if failed else "answers have one token each")
    return percentile(gaps, FELT_SHARE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    parser.add_argument("--url", type=url, default="http://127.0.0.1:8000")
    parser.add_argument("--model", help="default: the first that the server lists")
    parser.add_argument("--api-key", default=os.environ.get("OPENAI_API_KEY"),
                        help="default: $OPENAI_API_KEY")  # fmt: skip
    parser.add_argument("--streams", type=positive_int, default=64, metavar="N",
                        help="answers that run all the time (default: %(default)s)")  # fmt: skip
    parser.add_argument("--output-tokens", type=positive_int, default=128, metavar="N",
                        help="length of each of them (default: %(default)s)")  # fmt: skip
    parser.add_argument("--seconds", type=positive_float, default=20.0,
                        help="length of each of the two phases (default: %(default)g)")  # fmt: skip
    parser.add_argument("--body-bytes", type=positive_int, default=20_000_000, metavar="N",
                        help="size of the large bodies (default: %(default)s)")  # fmt: skip
    parser.add_argument("--prompt-tokens", type=positive_int, default=100_000, metavar="N",
                        help="length of the long prompts (default: %(default)s)")  # fmt: skip
    parser.add_argument("--json", type=output_file, metavar="FILE",
                        help="write the result there too; - is standard output, alone")  # fmt: skip


def main(arguments: argparse.Namespace) -> int:
    """Print what was felt; 0 if it is within the line."""
    given = {name: getattr(arguments, name) for name in InterferenceOptions._fields}
    try:
        found = asyncio.run(measure(InterferenceOptions(**given)))
    except BrokenConnection as error:
        print(f"{arguments.url}: {error}", file=sys.stderr)
        return 1
    if arguments.json != STANDARD_OUTPUT:
        print(interference_text(found))
    write_json(found, arguments.json)
    return 0 if found.is_kept else 1


def interference_text(found: Interference) -> str:
    """The result in two lines."""
    posts = ", ".join(f"{number} × {kind}" for kind, number in sorted(found.posts.items()))
    verdict = "kept" if found.is_kept else "EXCEEDED"
    return (
        f"inter-token p99: {found.quiet_p99_seconds * 1000:.1f} ms alone, "
        f"{found.disturbed_p99_seconds * 1000:.1f} ms beside large requests: {found.growth:+.0%} "
        f"(line {LINE_SHARE:+.0%}) {verdict}\n"
        f"beside: {posts}; {found.failed_streams} streams failed"
    )
