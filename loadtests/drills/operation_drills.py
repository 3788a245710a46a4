"""Drills of what operators do on purpose: nobody may notice."""

import asyncio
import time

from loadtests.drills.drill import Drill
from loadtests.drills.kill_drills import MANY_RESTARTS
from loadtests.drills.stage import Stage

OPERATION_SECONDS = 240.0
TOKENS_AFTER = 8000
"""So many that every engine gets its share of requests."""


async def rolling_restart(stage: Stage) -> None:
    """Every engine is started anew under load, one after the other, twice over."""
    cluster = await stage.launch(MANY_RESTARTS)
    rounds = 2
    async with stage.load(concurrency=16) as load:
        for _ in range(rounds):
            await load.until_streaming()
            await _operate(stage, "restart", "--rolling")
            await load.until_tokens(200)
    engines = await asyncio.to_thread(cluster.processes, "engine")
    incarnations = [engine.incarnation for engine in engines]
    stage.check(
        "every engine is new", incarnations == [1 + rounds] * len(engines), f"{incarnations}"
    )
    await stage.settle()


async def scale(stage: Stage) -> None:
    """From 2 engines to 4, and down to 1."""
    cluster = await stage.launch(MANY_RESTARTS)
    async with stage.load(concurrency=16) as load:
        for wanted in (4, 1):
            await load.until_streaming()
            await _operate(stage, "scale", "--dp", str(wanted))
            scaled_at = time.monotonic()
            await load.until_tokens(TOKENS_AFTER)
            engines = await asyncio.to_thread(cluster.processes, "engine")
            states = [engine.state for engine in engines]
            stage.check(f"there are {wanted} engines", states == ["ready"] * wanted, f"{states}")
            if wanted == 4:
                _check_shares(stage, scaled_at)
    await stage.settle()


def _check_shares(stage: Stage, since: float) -> None:
    """New engines do their part of what was asked since they came."""
    asked = [exchange for exchange in stage.history.exchanges if exchange.sent_at >= since]
    shares = [sum(exchange.engines.count(rank) for exchange in asked) for rank in range(4)]
    text = ", ".join(map(str, shares))
    stage.figure("answers of engines 0 to 3 after growing", text)
    stage.check("new engines do their part", min(shares) * 4 * 3 >= sum(shares), text)


async def _operate(stage: Stage, verb: str, *args: str) -> None:
    words = " ".join([verb, *args])
    stage.history.mark(words, "note")
    done = await asyncio.to_thread(
        lambda: stage.cluster.operate(verb, *args, seconds=OPERATION_SECONDS)
    )
    stage.check(f"`cluster {words}` succeeds", done.returncode == 0,
                (done.stderr or done.stdout).strip()[-300:] if done.returncode else "")  # fmt: skip


DRILLS = (
    Drill(
        "rolling-restart",
        "All engines are started anew under load, one after the other: no request fails.",
        rolling_restart,
    ),
    Drill(
        "scale",
        "The cluster grows from 2 engines to 4 and shrinks to 1 under load: no request fails.",
        scale,
    ),
)
