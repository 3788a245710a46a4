"""Drills that kill engines: one at a time, again and again; and all at once."""

import asyncio
import math
import random
import time

from loadtests.drills.blocking_http import HttpAnswer
from loadtests.drills.cluster import Cluster, sum_samples
from loadtests.drills.drill import Drill
from loadtests.drills.faults import kill, kill_and_wait, until_back
from loadtests.drills.file_limit import raise_file_limit
from loadtests.drills.idle_connections import IdleConnections
from loadtests.drills.recomputation import gaps_beyond_recomputation
from loadtests.drills.stage import Stage
from loadtests.drills.verdict import percentile

MANY_RESTARTS = "--max-restarts=10000"
LONGEST_GAP_SECONDS = 2.0
"""Beyond the time in which the other engines compute again what moved to them."""
KNOCK_SECONDS = 5.0
IDLE_CONNECTIONS, ACTIVE_STREAMS = 1000, 200


async def kill_engine(stage: Stage) -> None:
    """Engines in turn, at moments of all kinds, each once the other is back."""
    kills = int(stage.options.get("kills", stage.scaled(100, 5)))
    engines = int(stage.options.get("engines", 2))
    cluster = await stage.launch(MANY_RESTARTS, engines=engines)
    source = random.Random(kills)
    back_seconds = []
    async with stage.load(concurrency=16) as load:
        for number in range(kills):
            await load.until_tokens(source.randrange(60, 600))
            back_seconds.append(await kill_and_wait(stage, f"engine {number % engines}"))
    stage.figure("kills", kills)
    await show_gaps_at_kills(stage, engines)
    stage.figure("engine serves again, median", percentile(back_seconds, 0.5), "s")
    stage.figure("engine serves again, longest", max(back_seconds), "s")
    stage.figure("computed again", await recomputed_percent(cluster), "%")
    await stage.settle()
    restarts = await asyncio.to_thread(cluster.metric, "quadriga_engine_restarts_total")
    stage.check("every killed engine came back once", restarts == kills, f"{restarts:g} restarts")


async def show_gaps_at_kills(stage: Stage, num_engines: int) -> None:
    """How long clients of moved requests waited, and how much of that was not recomputation."""
    engines = await asyncio.to_thread(stage.cluster.engines)
    speeds = [engine["load"]["prefill_tokens_per_second"] for engine in engines if engine["load"]]
    speed = percentile(sorted(filter(None, speeds)), 0.5)
    show_gaps(stage)
    beyond = gaps_beyond_recomputation(stage.history, num_engines - 1, speed or math.inf)
    stage.figure("prompt tokens an engine computes", speed, "/s")
    stage.check_at_most(
        "gap beyond recomputation, p99", percentile(beyond, 0.99), LONGEST_GAP_SECONDS, "s"
    )


def show_gaps(stage: Stage, limit_seconds: float | None = None) -> None:
    """How long clients of moved requests waited for their next token, and the limit of that."""
    moved = stage.history.moved()
    streamed = [e.longest_gap_seconds for e in moved if e.body.get("stream")]
    stage.check("the faults hit requests that were under way", bool(moved), f"{len(moved)} moved")
    stage.figure("requests moved", len(moved))
    stage.figure("gap of a moved stream, median", percentile(streamed, 0.5), "s")
    label, p99 = "gap of a moved stream, p99", percentile(streamed, 0.99)
    if limit_seconds is None:
        stage.figure(label, p99, "s")
    else:
        stage.check_at_most(label, p99, limit_seconds, "s")


async def recomputed_percent(cluster: Cluster) -> float:
    """Positions that engines went over again, of those that had to be gone over once."""
    text = (await asyncio.to_thread(cluster.get, "/metrics")).text

    def total(name: str) -> float:
        return sum_samples(text, f"quadriga_{name}_total")

    needed = total("prompt_tokens") + total("generation_tokens")
    done = total("computed_tokens") + total("prefix_cache_hits")
    return max(0.0, 100 * (done - needed) / max(1.0, needed))


async def kill_all(stage: Stage) -> None:
    """Each engine in turn, then all at once; the service comes back by itself."""
    cluster = await stage.launch(MANY_RESTARTS)
    refusals: list[HttpAnswer] = []
    seconds = 0.0
    async with stage.load(concurrency=16) as load:
        for name in ("engine 0", "engine 1"):
            await load.until_tokens(200)
            await kill_and_wait(stage, name)
        for _ in range(stage.scaled(5)):
            await load.until_streaming()
            dead = [await kill(stage, name) for name in ("engine 0", "engine 1")]
            knocking = asyncio.create_task(_knock_until_ready(cluster))
            seconds = max([await until_back(stage, engine) for engine in dead])
            refusals += await knocking
            await load.until_tokens(100)
    told = [answer.headers.get("retry-after", "") for answer in refusals]
    stage.check("/ready says 503 with Retry-After while no engine is there",
                bool(told) and all(told), f"{len(told)} times")  # fmt: skip
    stage.figure("both engines back", seconds, "s")
    show_gaps(stage, limit_seconds=15.0)
    await stage.settle()


async def _knock_until_ready(cluster: Cluster) -> list[HttpAnswer]:
    """What `/ready` answers other than yes, until it says yes again, or has not said no in time."""
    refusals: list[HttpAnswer] = []
    deadline = time.monotonic() + KNOCK_SECONDS
    while time.monotonic() < deadline:
        answer = await asyncio.to_thread(cluster.get, "/ready")
        if answer.status == 200 and refusals:
            break
        if answer.status != 200:
            refusals.append(answer)
    return refusals


async def many_streams(stage: Stage) -> None:
    """A thousand idle connections and 200 streams on one frontend outlive both engines."""
    idle, active = stage.scaled(IDLE_CONNECTIONS, 100), stage.scaled(ACTIVE_STREAMS, 40)
    raise_file_limit(idle + active + 500)
    cluster = await stage.launch(MANY_RESTARTS, "--simulated-step-seconds=0.06", frontends=1)
    async with IdleConnections(cluster.url, idle) as connections:
        async with stage.load(concurrency=active) as load:
            await load.until_streaming(min(active * 3 // 4, 90))
            dead = [await kill(stage, name) for name in ("engine 0", "engine 1")]
            for engine in dead:
                await until_back(stage, engine)
            await load.until_tokens(active)
        num_alive = await connections.count_alive()
    stage.check("idle connections are still open and answered", num_alive == idle,
                f"{num_alive} of {idle}")  # fmt: skip
    stage.figure("streams at once", active)
    show_gaps(stage, limit_seconds=20.0)
    await stage.settle()


DRILLS = (
    Drill(
        "kill-engine",
        "An engine is killed in mid-decode, again and again: no request fails, no token changes, "
        "and a stream's gap is below 2 s beyond the time to compute its context again.",
        kill_engine,
        seconds=240,
    ),
    Drill(
        "kill-all",
        "Engines are killed in turn and all at once: requests wait, none fails, and the service "
        "comes back by itself.",
        kill_all,
    ),
    Drill(
        "many-streams",
        "1000 idle connections and 200 streams on one frontend outlive the death of all engines.",
        many_streams,
    ),
)
