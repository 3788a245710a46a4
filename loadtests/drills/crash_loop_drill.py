"""The drill of an engine that cannot start."""

import asyncio
import time
from itertools import pairwise

from loadtests.drills.cluster import Cluster
from loadtests.drills.drill import Drill
from loadtests.drills.faults import kill
from loadtests.drills.stage import Stage
from loadtests.drills.waiting import until

RESTARTS_AT_ONCE = 2
BAD_STARTS = 7
"""The later ones come after 1, 2, 4, 8 … seconds, with jitter."""
BACK_SECONDS = 120.0


async def crash_loop(stage: Stage) -> None:
    """Engine 1 is killed, and fails at so many starts."""
    bad_starts = stage.scaled(BAD_STARTS, 5)
    faults = [
        f"--inject-fault=fail-start:rank=1:incarnation={2 + number}" for number in range(bad_starts)
    ]
    cluster = await stage.launch(f"--max-restarts={RESTARTS_AT_ONCE}", *faults)
    started_at: dict[int, float] = {}
    async with stage.load(concurrency=8) as load:
        await load.until_streaming()
        await kill(stage, "engine 1")
        watching = asyncio.create_task(_watch_starts(stage, started_at, 2 + bad_starts))
        await until(lambda: len(started_at) > RESTARTS_AT_ONCE + 1, BACK_SECONDS, "bad starts")
        await _check_visible(stage, cluster)
        before = load.num_tokens
        await watching
        stage.check("others serve meanwhile", load.num_tokens > before)
        await load.until_tokens(100)
    waits = [later - earlier for earlier, later in pairwise(started_at.values())]
    stage.figure("starts that failed", bad_starts)
    stage.figure("waits between starts", ", ".join(f"{wait:.1f}" for wait in waits), "s")
    backed_off = waits[RESTARTS_AT_ONCE:]
    stage.check(
        "the waits grow",
        max(waits) == waits[-1] > 2 * min(backed_off),
        f"after {RESTARTS_AT_ONCE} at once",
    )
    stage.check("it comes back once it can", True)
    await stage.settle()


async def _watch_starts(stage: Stage, started_at: dict[int, float], last: int) -> None:
    """Note when each incarnation of engine 1 is first seen, until this one is ready."""
    while True:
        engine = await asyncio.to_thread(stage.cluster.find, "engine 1")
        if engine.incarnation > 1 and engine.incarnation not in started_at:
            started_at[engine.incarnation] = time.monotonic()
            stage.history.mark(f"start {engine.incarnation}", "note")
        if engine.incarnation >= last and engine.state == "ready":
            return
        await asyncio.sleep(0.05)


async def _check_visible(stage: Stage, cluster: Cluster) -> None:
    """Everybody who may ask can see that an engine is missing."""
    ready = await asyncio.to_thread(cluster.get, "/ready")
    stage.check("/ready is 200 and says degraded", ready.status == 200 and "degraded" in ready.text,
                ready.text)  # fmt: skip
    engines = {engine["rank"]: engine for engine in await asyncio.to_thread(cluster.engines)}
    restarts = int(engines.get(1, {}).get("restarts") or 0)
    stage.check("/cluster shows its restarts", restarts > 0, f"{restarts} restarts")
    up = await asyncio.to_thread(cluster.metric, "quadriga_engine_up", engine="1")
    counted = await asyncio.to_thread(cluster.metric, "quadriga_engine_restarts_total", engine="1")
    stage.check("metrics show it", up == 0 and counted > 0, f"up {up:g}, {counted:g} restarts")
    shown = await asyncio.to_thread(cluster.operate, "status")
    line = next((line for line in shown.stdout.splitlines() if "engine 1" in line), "")
    stage.check("`cluster status` shows it", bool(line) and "ready" not in line, line.strip())


DRILLS = (
    Drill(
        "crash-loop",
        "An engine fails at every start for a while: its restarts back off, the others serve, everybody "
        "can see it, and it comes back once it can.",
        crash_loop,
    ),
)
