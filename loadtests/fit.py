"""`python -m loadtests fit`: what a running cluster has measured, as a cost model for simulations."""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec

from loadtests.arguments import output_file, url
from loadtests.http_client import BrokenConnection, HttpClient
from loadtests.simulation.cost_model import CostModel


class FitError(Exception):
    """The cluster cannot be asked, or has not measured enough; the text says which."""


class _Load(msgspec.Struct, frozen=True):
    prefill_tokens_per_second: float
    decode_seconds_per_step: float
    decode_seconds_per_request: float
    decode_seconds_per_kv_token: float

    @property
    def is_measured(self) -> bool:
        decode_seconds = self.decode_seconds_per_step + self.decode_seconds_per_request
        return self.prefill_tokens_per_second > 0 and decode_seconds > 0


class _Engine(msgspec.Struct, frozen=True):
    load: _Load | None = None
    max_num_seqs: int = 0
    block_size: int = 0
    num_blocks: int = 0

    @property
    def is_known(self) -> bool:
        return self.num_blocks > 0 and self.load is not None and self.load.is_measured


class _EngineSteps(msgspec.Struct, frozen=True):
    max_num_batched_tokens: int
    prefill_chunk_while_decoding: int


class _Cluster(msgspec.Struct, frozen=True):
    """What matters here of `GET /cluster`."""

    engines: list[_Engine]
    engine_steps: _EngineSteps


class Fit(NamedTuple):
    """A cost model, and how many engines it is the median of."""

    cost_model: CostModel
    num_engines: int


async def fit(server_url: str, api_key: str | None = None) -> Fit:
    """The cost model of the engine in the middle. Raises FitError."""
    try:
        status, body = await HttpClient(server_url, api_key).get("/cluster")
    except BrokenConnection as error:
        raise FitError(f"{server_url}: {error}") from None
    if status != 200:
        raise FitError(f"{server_url}/cluster is answered with {status}")
    return fit_description(body)


def fit_description(description: bytes) -> Fit:
    """The cost model that follows from the answer of `GET /cluster`. Raises FitError."""
    try:
        cluster = msgspec.json.decode(description, type=_Cluster)
    except msgspec.MsgspecError as error:
        raise FitError(f"/cluster is not what quadriga answers: {error}") from None
    engines = [engine for engine in cluster.engines if engine.is_known]
    if not engines:
        raise FitError(
            f"none of {len(cluster.engines)} engines has measured its speeds yet: they do so while "
            "they serve, so send some load first"
        )
    return Fit(_median_model(engines, cluster.engine_steps), len(engines))


def _median_model(engines: Sequence[_Engine], steps: _EngineSteps) -> CostModel:
    loads = [engine.load for engine in engines if engine.load is not None]

    def middle(speed: Callable[[_Load], float]) -> float:
        return median(map(speed, loads))

    smallest = min(engines, key=lambda engine: engine.num_blocks * engine.block_size)
    return CostModel(
        decode_seconds_per_step=middle(lambda load: load.decode_seconds_per_step),
        decode_seconds_per_request=middle(lambda load: load.decode_seconds_per_request),
        decode_seconds_per_kv_token=middle(lambda load: load.decode_seconds_per_kv_token),
        prefill_tokens_per_second=middle(lambda load: load.prefill_tokens_per_second),
        max_num_seqs=min(engine.max_num_seqs for engine in engines),
        kv_capacity_tokens=smallest.num_blocks * smallest.block_size,
        block_size=smallest.block_size,
        max_num_batched_tokens=steps.max_num_batched_tokens,
        prefill_chunk_while_decoding=steps.prefill_chunk_while_decoding,
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    parser.add_argument("--url", type=url, default="http://127.0.0.1:8000")
    parser.add_argument(
        "--api-key", default=os.environ.get("OPENAI_API_KEY"), help="default: $OPENAI_API_KEY"
    )
    parser.add_argument("--output", type=output_file, default=Path("-"), metavar="FILE",
                        help="where to write the cost model (default: standard output)")  # fmt: skip


def main(arguments: argparse.Namespace) -> int:
    """Write the cost model; 0 if there is one, 1 with a line that says why not."""
    try:
        found = asyncio.run(fit(arguments.url, arguments.api_key))
    except FitError as error:
        print(error, file=sys.stderr)
        return 1
    text = msgspec.json.format(msgspec.json.encode(found.cost_model), indent=2).decode() + "\n"
    if arguments.output == Path("-"):
        print(text, end="")
    else:
        arguments.output.write_text(text)
    print(f"engines that have measured this: {found.num_engines}", file=sys.stderr)
    return 0
