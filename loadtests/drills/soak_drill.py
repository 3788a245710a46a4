"""The long drill: one random fault after the other, under load that never ends."""

import random
import time

from loadtests.drills.drill import Drill
from loadtests.drills.faults import freeze, kill, thaw, until_back, wait
from loadtests.drills.history import Exchange
from loadtests.drills.kill_drills import (
    MANY_RESTARTS,
    recomputed_percent,
    show_gaps,
    show_gaps_at_kills,
)
from loadtests.drills.memory_slope import MemorySlopes
from loadtests.drills.stage import Stage

MINUTES = 10.0
FAULT_SECONDS = (8.0, 30.0)
"""From one fault to the next, when the time is what is given."""
ENGINES = 4
SHORT_FREEZE_SECONDS = 1.2
FAULTS = ("kill engine", "kill engine", "kill frontend", "kill coordinator", "freeze engine",
          "hang engine", "freeze coordinator")  # fmt: skip
MOST_GROWTH_MIB_PER_HOUR = 60.0
LONGEST_IMBALANCE = 1.5
LEAST_REQUESTS = 100
"""Fewer an engine say nothing about balance."""


async def soak(stage: Stage) -> None:
    """For so many minutes, or until so many engines have been killed."""
    engines = int(stage.options.get("engines", ENGINES))
    cluster = await stage.launch(MANY_RESTARTS, engines=engines)
    source = random.Random(7)
    memory = MemorySlopes(cluster)
    kills = int(stage.options.get("kills", 0))
    minutes = stage.options.get("minutes", MINUTES * stage.scale)
    done: dict[str, int] = {}
    deadline = time.monotonic() + 60 * minutes
    async with stage.load(concurrency=16) as load:
        while sum(done.values()) < kills if kills else time.monotonic() < deadline:
            await memory.measure()
            fault = "kill engine" if kills else source.choice(FAULTS)
            if kills:
                await load.until_tokens(source.randrange(20, 300))
            else:
                await wait(source.uniform(*FAULT_SECONDS) * min(1.0, max(0.2, minutes / 10)))
            await _strike(stage, fault, source.randrange(engines))
            done[fault] = done.get(fault, 0) + 1
        await wait(5)
        await memory.measure()
    for fault, number in done.items():
        stage.figure(fault, number)
    if kills:
        await show_gaps_at_kills(stage, engines)
    else:
        show_gaps(stage, limit_seconds=10.0)
    stage.figure("computed again", await recomputed_percent(cluster), "%")
    _check_balance(stage, engines)
    _check_memory(stage, memory)
    frontends_died = "kill frontend" in done
    await stage.settle(
        may_fail=_is_broken if frontends_died else None, exact_metrics=not frontends_died
    )


async def _strike(stage: Stage, fault: str, rank: int) -> None:
    """Do one of `FAULTS`, and wait until it is over."""
    match fault:
        case "kill engine":
            before = await kill(stage, f"engine {rank}")
            await until_back(stage, before)
        case "kill frontend":
            await until_back(stage, await kill(stage, f"frontend {rank % 2}"))
        case "kill coordinator":
            await until_back(stage, await kill(stage, "coordinator"))
        case "freeze engine":
            frozen = await freeze(stage, f"engine {rank}")
            await wait(SHORT_FREEZE_SECONDS)
            thaw(stage, frozen)
        case "hang engine":
            frozen = await freeze(stage, f"engine {rank}")
            await until_back(stage, frozen)
            thaw(stage, frozen)
        case _:
            frozen = await freeze(stage, "coordinator")
            await wait(SHORT_FREEZE_SECONDS)
            thaw(stage, frozen)


def _is_broken(exchange: Exchange) -> bool:
    return exchange.failure == "broken"


def _check_balance(stage: Stage, num_engines: int) -> None:
    """Engines are killed evenly, so they should have ended about as many requests each."""
    shares = [0] * num_engines
    for exchange in stage.history.exchanges:
        for rank in exchange.engines:
            if rank is not None:
                shares[rank] += 1
    mean = sum(shares) / num_engines
    ratio = max(shares) / max(1.0, mean)
    stage.figure("requests ended on each engine", ", ".join(map(str, shares)))
    if mean >= LEAST_REQUESTS:
        stage.check_at_most("busiest engine against the mean", ratio, LONGEST_IMBALANCE)


def _check_memory(stage: Stage, memory: MemorySlopes) -> None:
    slopes = memory.mib_per_hour()
    for name, slope in sorted(slopes.items()):
        stage.figure(f"memory of {name}", slope, "MiB/h")
    growing = [name for name, slope in slopes.items() if slope > MOST_GROWTH_MIB_PER_HOUR]
    stage.check("no process's memory grows", not growing, ", ".join(growing))


DRILLS = (
    Drill(
        "soak",
        "One random fault after the other, for minutes or for so many kills: all invariants hold, "
        "memory does not grow, the load stays even.",
        soak,
        seconds=900,
    ),
)
