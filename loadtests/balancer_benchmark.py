"""`python -m loadtests balancer`: what choosing an engine costs a frontend, against its limits."""

import argparse
import random
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median

import msgspec

from cluster.wire.block_hash import HASH_SEED, hash_blocks
from cluster.wire.messages import (
    PROTOCOL_VERSION,
    BlockEvents,
    EngineHello,
    EnginePhase,
    LoadReport,
)
from frontend.balancer import POLICIES, Balancer
from frontend.engine_book import EngineBook, hits_by_rank
from frontend.routing.marginal_cost import MARGINAL_COST
from frontend.routing.view import RoutedRequest, RoutingView
from loadtests.arguments import output_file, positive_int
from loadtests.json_report import STANDARD_OUTPUT, write_json
from loadtests.prefix_index_benchmark import measure_block_hash, measure_prefix_index

DECISION_LIMIT_MICROSECONDS = {8: 50.0, 64: 200.0}
"""By number of engines, with the look-up of the prompt in every engine's prefix index."""
UPKEEP_LIMIT_SHARE = 0.02
"""Of a core, at 10 000 block events a second."""
PROMPT_TOKENS, BLOCK_SIZE = 4096, 16
CACHED_BLOCKS = 10_000
"""Of each engine; what it holds of the prompt is part of it."""
CALLS_A_REPEAT = 200
NUM_FRONTENDS = 4


class Cost(msgspec.Struct, frozen=True):
    """One price: the median of the repeats, and the most that it may be."""

    label: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def is_kept(self) -> bool:
        """Whether the limit holds; without one it always does."""
        return self.limit is None or self.value < self.limit


def measure_all(repeats: int) -> Iterator[Cost]:
    """Every price, in CPU time of this thread: others may use the machine too."""
    for num_engines, limit in DECISION_LIMIT_MICROSECONDS.items():
        yield from _decision_costs(num_engines, limit, repeats)
    yield from _index_costs(repeats)


def _decision_costs(num_engines: int, limit: float, repeats: int) -> Iterator[Cost]:
    books, prompt = make_books(num_engines), prompt_hashes()
    view = RoutingView([book.load(0.01) for book in books], NUM_FRONTENDS)
    request = RoutedRequest(PROMPT_TOKENS, hits_by_rank(books, prompt))
    hits_cost = _median_microseconds(partial(hits_by_rank, books, prompt), repeats)
    yield Cost(f"hits in {num_engines} indexes", hits_cost, "µs")
    for policy in POLICIES:
        choose = Balancer(policy, random.Random(0)).choose
        cost = _median_microseconds(partial(choose, view, request), repeats)
        yield Cost(f"{policy}, {num_engines} engines", cost, "µs")
        if policy == MARGINAL_COST:  # the others' are for comparison
            yield Cost(f"{policy} with hits, {num_engines} engines", cost + hits_cost, "µs", limit)


def _index_costs(repeats: int) -> Iterator[Cost]:
    indexes = [measure_prefix_index() for _ in range(repeats)]
    hashes = [measure_block_hash() for _ in range(repeats)]
    per_event = median(cost.microseconds_per_event for cost in indexes)
    share = median(cost.upkeep_core_share for cost in indexes)
    yield Cost("index upkeep, a block event", per_event, "µs")
    yield Cost("index upkeep at 10 000 events/s", share * 100, "% of a core",
               UPKEEP_LIMIT_SHARE * 100)  # fmt: skip
    per_1000_tokens = median(cost.microseconds_per_1000_tokens for cost in hashes)
    yield Cost("block hashes, 1000 prompt tokens", per_1000_tokens, "µs")


def prompt_hashes() -> list[bytes]:
    """The blocks of a long prompt."""
    return hash_blocks(range(PROMPT_TOKENS), BLOCK_SIZE)


def make_books(num_engines: int) -> list[EngineBook]:
    """Busy engines, each of which holds another part of the prompt."""
    source, prompt = random.Random(0), prompt_hashes()
    return [_book(rank, prompt, source) for rank in range(num_engines)]


def _book(rank: int, prompt: Sequence[bytes], source: random.Random) -> EngineBook:
    hello = EngineHello(
        PROTOCOL_VERSION, rank, 1, "model", 32_768, BLOCK_SIZE, 2 * CACHED_BLOCKS, 64, HASH_SEED
    )
    book = EngineBook(hello, (0, 1))
    held = list(prompt[: source.randrange(len(prompt))])
    others = [source.randbytes(16) for _ in range(CACHED_BLOCKS - len(held))]
    book.prefix.apply(BlockEvents(rank, 1, 1, held + others, []))
    report = LoadReport(
        rank, 1, 1, EnginePhase.READY, step=1,
        waiting=source.randrange(4), running=source.randrange(8, 32),
        waiting_prompt_tokens=source.randrange(4000), running_tokens=source.randrange(50_000),
        total_blocks=2 * CACHED_BLOCKS, used_blocks=source.randrange(CACHED_BLOCKS),
        prefill_tokens_per_second=source.uniform(18_000, 22_000),
        decode_seconds_per_step=source.uniform(0.005, 0.007), decode_seconds_per_request=8e-5,
        decode_seconds_per_kv_token=6e-8, acknowledged=[(0, 1, 0)],
    )  # fmt: skip
    book.accept(report, 0.0)
    book.dispatch("unacknowledged", 1000)
    return book


def _median_microseconds(work: Callable[[], object], repeats: int) -> float:
    times = timeit.repeat(work, timer=time.thread_time, repeat=repeats, number=CALLS_A_REPEAT)
    return 1e6 * median(times) / CALLS_A_REPEAT


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    parser.add_argument("--repeats", type=positive_int, default=7, metavar="N",
                        help="of which the median counts (default: %(default)s)")  # fmt: skip
    parser.add_argument("--json", type=output_file, metavar="FILE",
                        help="write the costs there too; - is standard output, alone")  # fmt: skip


def main(arguments: argparse.Namespace) -> int:
    """Print every price; 0 if all limits hold, 1 if one does not."""
    costs = []
    is_quiet = arguments.json == STANDARD_OUTPUT
    for cost in measure_all(arguments.repeats):
        costs.append(cost)
        if not is_quiet:
            print(cost_line(cost), flush=True)
    write_json(costs, arguments.json)
    return 0 if all(cost.is_kept for cost in costs) else 1


def cost_line(cost: Cost) -> str:
    """A price as a line of a table; what has a limit says so."""
    line = f"{cost.label:<46}{cost.value:>9.2f} {cost.unit}"
    if cost.limit is None:
        return line
    return f"{line} (limit {cost.limit:g}){'' if cost.is_kept else '  EXCEEDED'}"
