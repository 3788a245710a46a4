"""Drills of memory that is not there: on the device, and in the KV cache."""

import asyncio

from loadtests.drills.bodies import COMPLETIONS, Body
from loadtests.drills.drill import Drill
from loadtests.drills.faults import num_deaths
from loadtests.drills.kill_drills import LONGEST_GAP_SECONDS, show_gaps
from loadtests.drills.stage import Stage

SMALL_CACHE = "--kv-cache-memory=48MiB"
"""About 2000 tokens of the embedded model's size: most of the load does not fit at once."""


async def out_of_memory(stage: Stage) -> None:
    """An allocation fails in one engine in mid-decode."""
    await stage.launch("--inject-fault=out-of-memory:rank=0:incarnation=1:step=700")
    async with stage.load(concurrency=16) as load:
        before = await asyncio.to_thread(stage.cluster.find, "engine 0")
        stage.fault("engine 0 runs out of memory in step 700")
        await asyncio.to_thread(
            stage.cluster.wait_until_restarted, "engine 0", before.incarnation + 1
        )
        stage.recovered("engine 0 is back")
        await load.until_tokens(500)
    stage.check("one engine died, once", await num_deaths(stage) == 1)
    restarts = await asyncio.to_thread(
        stage.cluster.metric, "quadriga_engine_restarts_total", engine="0"
    )
    stage.check("its restart is counted", restarts == 1, f"{restarts:g}")
    show_gaps(stage, LONGEST_GAP_SECONDS)
    await stage.settle()


async def kv_exhausted(stage: Stage) -> None:
    """More requests run than the KV cache holds, and some come that never fit.

    One is inside the model's context and over the cache; the other one is over both.
    """
    cluster = await stage.launch(SMALL_CACHE, any_length=True)
    model = (await asyncio.to_thread(cluster.get, "/v1/models")).json()["data"][0]
    context_tokens = int(model["max_model_len"])
    async with stage.load(concurrency=48, output_tokens=400) as load:
        await load.until_tokens(stage.scaled(60_000, 15_000), seconds=180)
        over_cache = await stage.ask(oversized(context_tokens - 1000))
        over_context = await stage.ask(oversized(context_tokens + 1000))
    preemptions = await asyncio.to_thread(cluster.metric, "quadriga_num_preemptions_total")
    stage.figure("preemptions", preemptions)
    stage.check("the cache really was too small", preemptions > 0)
    stage.check(
        "what the KV cache can never hold is 400, and named so",
        over_cache.status == 400 and "KV cache" in over_cache.error,
        f"{over_cache.status} {over_cache.error[:200]}",
    )
    stage.check("so is what is over the context too", over_context.status == 400,
                f"{over_context.status} {over_context.error[:200]}")  # fmt: skip
    stage.check("nobody died of it", await num_deaths(stage) == 0)
    await stage.settle(may_fail=lambda exchange: exchange.kind == "oversized")


def oversized(max_tokens: int) -> Body:
    """A request for so long an answer to a short prompt."""
    return Body("oversized", COMPLETIONS, {"prompt": "all of it", "max_tokens": max_tokens})


DRILLS = (
    Drill(
        "out-of-memory",
        "An engine runs out of memory in a step: it alone starts anew, and its requests go on.",
        out_of_memory,
        seconds=30,
    ),
    Drill(
        "kv-exhausted",
        "The KV cache is too small for the load: requests are preempted and all answers are right; "
        "what the cache can never hold is 400, also inside the model's context.",
        kv_exhausted,
    ),
)
