"""Drills of the network between processes: a relay holds, cuts and slows one engine's links."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cluster.launch.status import ProcessStatus
from loadtests.drills.cluster import Cluster
from loadtests.drills.drill import Drill, DrillError
from loadtests.drills.faults import kill_and_wait, num_deaths, wait
from loadtests.drills.relay import CUT, HOLD, PASS, Relay, Treatment
from loadtests.drills.stage import Stage
from loadtests.drills.waiting import until

HANG_TIMEOUT_SECONDS = 2.0
SLOW = Treatment(delay_seconds=0.05, bytes_per_second=200_000)
LIMIT_SECONDS = 15.0


@asynccontextmanager
async def relayed_engine(stage: Stage, cluster: Cluster) -> AsyncIterator[tuple[Relay, int]]:
    """A relay in front of all sockets that engines connect to, with engine 0 behind it; and its pid.

    An engine connects when it starts, so it is killed first.
    """
    async with Relay(cluster.run_directory) as relay:
        frontends = await asyncio.to_thread(cluster.processes, "frontend")
        names = [f"f{frontend.index}.{frontend.incarnation}" for frontend in frontends]
        await relay.interpose("reports", "view", *(f"{name}.requests" for name in names),
                              *(f"{name}.outputs" for name in names))  # fmt: skip
        await kill_and_wait(stage, "engine 0")
        pid = (await asyncio.to_thread(cluster.find, "engine 0")).pid
        wanted = 2 + 2 * len(names)
        await until(lambda: relay.num_connections(pid) >= wanted, 10, "engine 0 behind the relay")
        yield relay, pid


async def partition(stage: Stage) -> None:
    """All links of one engine are cut for a moment, then turn into a black hole for good."""
    cluster = await stage.launch(f"--hang-timeout={HANG_TIMEOUT_SECONDS}", "--max-restarts=100")
    async with (
        relayed_engine(stage, cluster) as (relay, pid),
        stage.load(concurrency=16) as load,
    ):
        await load.until_streaming()
        deaths = await num_deaths(stage)
        stage.fault("engine 0's links are cut")
        relay.treat(pid, CUT)
        await wait(0.5)
        relay.treat(pid, PASS)
        stage.recovered("and whole again")
        await until_serving(stage, 0)
        await load.until_tokens(500)
        stage.check("a short cut kills nobody", await num_deaths(stage) == deaths)

        await hold_shortly(stage, relay, pid)
        await load.until_tokens(500)
        stage.check("a short silence kills nobody", await num_deaths(stage) == deaths)

        before = await asyncio.to_thread(cluster.find, "engine 0")
        stage.fault("engine 0's links become a black hole")
        relay.treat(pid, HOLD)
        seconds = await until_replaced(stage, before)
        stage.recovered("engine 0 is another process")
        await load.until_tokens(500)
    stage.figure("a partitioned engine is replaced after", seconds, "s")
    stage.check("it was declared dead once", await num_deaths(stage) == deaths + 1)
    moved = stage.history.moved()
    stage.check("requests went on elsewhere", bool(moved), f"{len(moved)} moved")
    stage.check_at_most(
        "longest gap of a stream", max(e.longest_gap_seconds for e in moved), LIMIT_SECONDS, "s"
    )
    await stage.settle()


async def hold_shortly(stage: Stage, relay: Relay, pid: int) -> None:
    """Half the time after which an engine is given up: what was sent arrives late, all of it."""
    stage.fault("engine 0's links stall")
    relay.treat(pid, HOLD)
    await wait(HANG_TIMEOUT_SECONDS / 2)
    relay.treat(pid, PASS)
    stage.recovered("and go on")
    await until_serving(stage, 0)


async def until_replaced(stage: Stage, before: ProcessStatus) -> float:
    """Seconds until the successor of a process is ready."""
    return await asyncio.to_thread(
        stage.cluster.wait_until_restarted, before.name, before.incarnation + 1
    )


async def until_serving(stage: Stage, rank: int) -> None:
    """Wait until the frontends send to an engine again. Raises DrillError."""
    began_at = asyncio.get_running_loop().time()
    while True:
        engines = await asyncio.to_thread(stage.cluster.engines)
        states = {engine["rank"]: engine["state"] for engine in engines}
        if states.get(rank) == "ready":
            return
        if asyncio.get_running_loop().time() - began_at > LIMIT_SECONDS:
            raise DrillError(f"engine {rank} does not serve again: {states}")
        await asyncio.sleep(0.05)


async def slow_link(stage: Stage) -> None:
    """One engine's links have a latency and a small bandwidth."""
    cluster = await stage.launch()
    async with (
        relayed_engine(stage, cluster) as (relay, pid),
        stage.load(concurrency=16) as load,
    ):
        await load.until_tokens(500)
        deaths = await num_deaths(stage)
        first = len(load.exchanges)
        stage.fault("engine 0's links are slow")
        relay.treat(pid, SLOW)
        await wait(stage.scaled(20, 4))
        slowed = load.exchanges[first:]
        relay.treat(pid, PASS)
        stage.recovered("the links are fast again")
        await load.until_tokens(500)
        stage.check("no false verdict", await num_deaths(stage) == deaths)
    whole = [exchange for exchange in slowed if exchange.is_whole]
    on_slow = sum(0 in exchange.engines for exchange in whole)
    stage.figure("requests while it was slow", len(whole))
    stage.figure("share of them on the slow engine", 100 * on_slow / max(1, len(whole)), "%")
    stage.check("serving went on", len(whole) > 0)
    gap = max((exchange.longest_gap_seconds for exchange in whole), default=0.0)
    stage.check_at_most("longest gap of a stream", gap, 2.0, "s")
    await stage.settle()


DRILLS = (
    Drill(
        "partition",
        "An engine is cut from everybody, for a moment and for good: its requests go on elsewhere, "
        "nothing it still says is believed, and the cluster heals alone.",
        partition,
    ),
    Drill(
        "slow-link",
        "One engine's links get 50 ms of latency each way and 200 kB/s: serving goes on, and nobody "
        "is declared dead.",
        slow_link,
    ),
)
