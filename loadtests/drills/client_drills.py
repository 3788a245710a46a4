"""Drills of clients that misbehave: those that stop reading, and those that leave all at once."""

import asyncio
import time
from statistics import median

from loadtests.drills.drill import Drill, DrillError
from loadtests.drills.faults import wait
from loadtests.drills.file_limit import raise_file_limit
from loadtests.drills.growth import MEBIBYTE, MemoryGrowth
from loadtests.drills.history import Exchange
from loadtests.drills.raw_stream import is_raw, open_streams, reading
from loadtests.drills.stage import Stage
from loadtests.drills.verdict import percentile

READERS, STORM = 500, 1000
SLOW_READER_SECONDS = 20.0
MOST_KIB_A_STREAM = 512
INTER_TOKEN_FACTOR = 1.10
OTHERS = 16
TURNS, SETTLING_SECONDS, MEASURED_SECONDS = 3, 1.0, 5.0
ABORT_SECONDS = 1.0
ENGINES_OF_ANY_SIZE = (
    "--max-num-seqs=600", "--max-num-batched-tokens=16384", "--prefill-chunk-while-decoding=16384",
    "--max-model-len=4096", "--kv-cache-memory=20GiB", "--simulated-step-seconds=0.1",
    "--simulated-request-seconds=0", "--simulated-kv-token-seconds=0", "--simulated-prefill-rate=1000000",
)  # fmt: skip
"""A step takes as long with 500 requests as with one, and all fit: what others notice is not the engines."""
MOST_LOGPROBS = 20
"""With so many an answer fills all buffers on its way before its client is cut."""


async def slow_readers(stage: Stage) -> None:
    """Clients open streams and do not read them, while others read on.

    Others are compared with others beside as many streams that are read: what 500 more streams cost
    is no matter of reading. The two take turns, so that both have the same of a machine that is shared.
    """
    number = stage.scaled(READERS, 60)
    raise_file_limit(number + 300)
    cluster = await stage.launch(
        f"--slow-reader-timeout={SLOW_READER_SECONDS}", *ENGINES_OF_ANY_SIZE
    )
    memory = await MemoryGrowth.start(cluster)
    read: list[float] = []
    unread: list[float] = []
    async with stage.load(concurrency=OTHERS, kinds=["greedy", "sampled"]) as load:
        await load.until_streaming()
        for _ in range(stage.scaled(TURNS, 2)):
            async with open_streams(stage, number) as streams, reading(streams):
                read.append(await p99_of_gaps(stage, number, load.exchanges))
            await until_none_held(stage, time.monotonic(), most=OTHERS)
            async with open_streams(stage, number):
                unread.append(await p99_of_gaps(stage, number, load.exchanges))
            await until_none_held(stage, time.monotonic(), most=OTHERS)
        before = await num_cut(stage)
        async with open_streams(stage, number, logprobs=MOST_LOGPROBS) as streams:
            stage.fault(f"{number} clients do not read")
            await until_held(stage, number)
            await wait(SLOW_READER_SECONDS / 2)
            growth = await memory.growth()
            await until_cut(stage, before + number)
            cut = sum(await asyncio.gather(*(stream.is_cut() for stream in streams)))
        stage.recovered("all of them are cut")
        await load.until_tokens(100)
    most = max(value for name, value in growth.items() if name.startswith("frontend"))
    per_stream = most * MEBIBYTE / 1024 / (number / 2)
    stage.check_at_most("frontend memory a stream", per_stream, MOST_KIB_A_STREAM, "KiB")
    stage.check("none was cut while others were measured", before == 0, f"{before:g}")
    stage.check("every one of them was cut", cut == number, f"{cut} of {number}")
    stage.figure("inter-token p99 of others beside streams that are read", median(read), "s")
    stage.check_at_most(
        "inter-token p99 of others beside streams that are not", median(unread),
        INTER_TOKEN_FACTOR * median(read), "s",
    )  # fmt: skip
    await stage.settle(exact_metrics=False, may_fail=is_raw)


async def p99_of_gaps(stage: Stage, number: int, exchanges: list[Exchange]) -> float:
    """The inter-token p99 of the next seconds, once engines have so many requests."""
    await until_held(stage, number)
    await wait(SETTLING_SECONDS)
    return percentile(await gaps_during(exchanges, MEASURED_SECONDS), 0.99)


async def num_cut(stage: Stage) -> float:
    """How many slow readers the cluster has counted."""
    return await asyncio.to_thread(stage.cluster.metric, "quadriga_slow_readers_cut_total")


async def until_cut(stage: Stage, number: float) -> None:
    """Wait until the cluster has counted so many slow readers. Raises DrillError."""
    deadline = time.monotonic() + 6 * SLOW_READER_SECONDS
    while (counted := await num_cut(stage)) < number:
        if time.monotonic() > deadline:
            raise DrillError(f"{counted:g} of {number:g} slow readers were cut")
        await wait(0.5)


async def gaps_during(exchanges: list[Exchange], seconds: float) -> list[float]:
    """Times between two arrivals of one choice, of all exchanges in the next seconds."""
    start = time.monotonic()
    await wait(seconds)
    end = time.monotonic()
    gaps = []
    for exchange in exchanges:
        last: dict[int, float] = {}
        for arrival in exchange.arrivals:
            before = last.get(arrival.choice)
            if before is not None and start <= before and arrival.at <= end:
                gaps.append(arrival.at - before)
            last[arrival.choice] = arrival.at
    return gaps


async def disconnect_storm(stage: Stage) -> None:
    """A thousand clients leave in the same moment."""
    number = stage.scaled(STORM, 100)
    raise_file_limit(number + 300)
    # Slow engines: with frontends that have no time left for tokens, it is that which would be measured.
    await stage.launch(*ENGINES_OF_ANY_SIZE, "--simulated-step-seconds=0.2")
    async with open_streams(stage, number) as streams:
        await until_held(stage, number)
        stage.fault(f"{number} clients leave")
        left_at = time.monotonic()
        for stream in streams:
            stream.close()
        seconds = await until_none_held(stage, left_at)
    stage.figure("clients", number)
    stage.check_at_most("all requests aborted after", seconds, ABORT_SECONDS, "s")
    async with stage.load(concurrency=8) as load:
        await load.until_tokens(500)
    await stage.settle(exact_metrics=False, may_fail=is_raw)


async def held(stage: Stage) -> int:
    """Requests that the engines hold."""
    return sum(
        engine["load"]["running"] + engine["load"]["waiting"]
        for engine in await asyncio.to_thread(stage.cluster.engines)
        if engine["load"]
    )


async def until_held(stage: Stage, number: int) -> None:
    """Wait until the engines hold so many."""
    deadline = time.monotonic() + 90
    while await held(stage) < number:
        if time.monotonic() > deadline:
            raise DrillError(f"the engines hold {await held(stage)} requests, not {number}")
        await wait(0.1)


async def until_none_held(stage: Stage, since: float, most: int = 0) -> float:
    """Seconds since that moment until engines hold no more than they may. Raises DrillError."""
    while await held(stage) > most:
        if time.monotonic() - since > 30:
            raise DrillError("the engines still hold requests")
        await asyncio.sleep(0.02)
    return time.monotonic() - since


DRILLS = (
    Drill(
        "slow-readers",
        "500 clients open streams and do not read: memory a stream is bounded, they are cut in time, "
        "and others' inter-token p99 is within 10 % of that beside 500 clients that do read.",
        slow_readers,
        harmless=True,
        seconds=150,
    ),
    Drill(
        "disconnect-storm",
        "1000 clients leave at once: their requests are aborted within 1 s and everything is idle.",
        disconnect_storm,
        harmless=True,
    ),
)
