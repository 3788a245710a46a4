"""What the prefix index costs a frontend: upkeep, lookups, and the hashes of prompts."""

import time
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from cluster.wire.block_hash import hash_blocks
from cluster.wire.codec import Decoder, Encoder, Frame
from cluster.wire.messages import BlockEvents
from frontend.routing.prefix_index import PrefixIndex

NUM_ENGINES = 64
BLOCKS_PER_ENGINE = 10_000
BLOCK_SIZE = 16
BLOCKS_A_MESSAGE = 64
"""As in a message of an engine that stores and removes 1280 blocks a second, at 20 messages."""
PROMPT_BLOCKS = 512
EVENTS_PER_SECOND = 10_000
REPEATS = 30


class PrefixIndexCost(NamedTuple):
    """The price of an index, in time of one core."""

    microseconds_per_event: float
    """To decode and apply one stored or removed block."""
    upkeep_core_share: float
    """Share of a core at 10 000 events a second."""
    lookup_alike_microseconds: float
    """Hits of a prompt of 8192 tokens on 64 engines that hold equally much of it."""
    lookup_apart_microseconds: float
    """The same where no two hold equally much."""


class BlockHashCost(NamedTuple):
    """The price of the block hashes of a prompt, in time of one core."""

    microseconds_per_1000_tokens: float


def measure_prefix_index() -> PrefixIndexCost:
    """Decode, apply and look up as a frontend does, on this machine."""
    random_source = Random(0)
    per_event = _microseconds_per_event(random_source)
    prompt = _new_hashes(random_source, PROMPT_BLOCKS)
    alike = [_filled_index(random_source, prompt[:-100]) for _ in range(NUM_ENGINES)]
    apart = [_filled_index(random_source, prompt[: -100 - rank]) for rank in range(NUM_ENGINES)]
    return PrefixIndexCost(
        per_event,
        per_event * EVENTS_PER_SECOND / 1e6,
        _least_microseconds(lambda: _look_up(alike, prompt)),
        _least_microseconds(lambda: _look_up(apart, prompt)),
    )


def measure_block_hash() -> BlockHashCost:
    """Hash a long prompt, on this machine."""
    token_ids = Random(0).choices(range(50_000), k=8_000)
    microseconds = _least_microseconds(lambda: hash_blocks(token_ids, BLOCK_SIZE))
    return BlockHashCost(microseconds * 1_000 / len(token_ids))


def _microseconds_per_event(random_source: Random) -> float:
    """Of an index as large as a cache, in which each message replaces blocks."""
    cached = _new_hashes(random_source, BLOCKS_PER_ENGINE)
    decoder, encoder = Decoder(BlockEvents), Encoder()
    messages: list[list[Frame]] = []
    for start in range(0, BLOCKS_PER_ENGINE, BLOCKS_A_MESSAGE // 2):
        removed = cached[start : start + BLOCKS_A_MESSAGE // 2]
        stored = _new_hashes(random_source, len(removed))
        messages.append(encoder.encode(BlockEvents(0, 1, len(messages) + 2, stored, removed)))

    def take_in_all() -> None:
        index = PrefixIndex(BLOCK_SIZE)
        index.apply(BlockEvents(0, 1, 1, cached, []))
        for frames in messages:
            index.apply(decoder.decode(frames))

    return _least_microseconds(take_in_all) / (3 * BLOCKS_PER_ENGINE)


def _filled_index(random_source: Random, held: list[bytes]) -> PrefixIndex:
    """The index of an engine that holds these blocks, and many others."""
    index = PrefixIndex(BLOCK_SIZE)
    others = _new_hashes(random_source, BLOCKS_PER_ENGINE)
    index.apply(BlockEvents(0, 1, 1, held + others, []))
    return index


def _look_up(indexes: list[PrefixIndex], prompt: list[bytes]) -> None:
    hit_tokens = 0
    for index in indexes:
        hit_tokens = index.hit_tokens(prompt, likely_tokens=hit_tokens)


def _new_hashes(random_source: Random, count: int) -> list[bytes]:
    return [random_source.randbytes(16) for _ in range(count)]


def _least_microseconds(work: Callable[[], list[bytes] | None]) -> float:
    """The shortest of some runs, in the time of this thread: others may use the machine too."""
    times = []
    for _ in range(REPEATS):
        started_at = time.thread_time()
        work()
        times.append(time.thread_time() - started_at)
    return min(times) * 1e6
