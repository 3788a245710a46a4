"""Drills of engines that stand still: stopped by a signal, or stuck in a step of their own."""

import asyncio
import random
import time

from loadtests.drills.bodies import COMPLETIONS, Body
from loadtests.drills.drill import Drill
from loadtests.drills.faults import freeze, num_deaths, thaw, until_back, wait
from loadtests.drills.kill_drills import MANY_RESTARTS, show_gaps
from loadtests.drills.stage import Stage
from loadtests.drills.waiting import until

VERDICT_SECONDS = 3.0
"""The default of `--hang-timeout`."""
SHORT_FREEZE_SECONDS = 1.5
STUCK_STEP = 250
LEGAL_PREFILL_TOKENS = 1800


async def freeze_engine(stage: Stage) -> None:
    """Short freezes cost nobody anything; long ones end the engine, and its zombie is not believed."""
    await stage.launch(MANY_RESTARTS)
    source = random.Random(3)
    async with stage.load(concurrency=16) as load:
        for number in range(stage.scaled(4)):
            await load.until_streaming()
            frozen = await freeze(stage, f"engine {number % 2}")
            await wait(SHORT_FREEZE_SECONDS)
            thaw(stage, frozen)
            await load.until_tokens(200)
        stage.check("a short freeze is no death", await num_deaths(stage) == 0)
        rounds = stage.scaled(4)
        for number in range(rounds):
            await load.until_streaming()
            frozen = await freeze(stage, f"engine {number % 2}")
            await until_back(stage, frozen)
            thaw(stage, frozen)
            await load.until_tokens(200)
        deaths = await num_deaths(stage)
        for number in range(stage.scaled(4)):
            await load.until_streaming()
            frozen = await freeze(stage, f"engine {number % 2}")
            await wait(VERDICT_SECONDS + source.uniform(-0.3, 0.3))
            thaw(stage, frozen)  # about when the verdict falls: a zombie may send for a moment
            await asyncio.to_thread(stage.cluster.wait_until_ready)
            await load.until_tokens(200)
    stage.check("a long freeze is the engine's end", deaths == rounds, f"{deaths} deaths")
    show_gaps(stage, limit_seconds=VERDICT_SECONDS + 5)
    await stage.settle()


async def stuck_step(stage: Stage) -> None:
    """A step that never returns is found out, and what the engine was doing is in the log."""
    cluster = await stage.launch(
        MANY_RESTARTS, f"--inject-fault=hang:rank=0:incarnation=1:step={STUCK_STEP}"
    )
    async with stage.load(concurrency=16) as load:
        before = await asyncio.to_thread(cluster.find, "engine 0")
        seconds = await until_back(stage, before)
        back_at = time.monotonic()
        await load.until_tokens(200)
    streamed = [e.longest_gap_seconds for e in stage.history.moved() if e.body.get("stream")]
    stage.figure("engine serves again after the load began", seconds, "s")
    show_gaps(stage, limit_seconds=VERDICT_SECONDS + 3)
    stage.check("the verdict came within the limit", bool(streamed) and min(streamed) > 1,
                "no stream went on before the verdict")  # fmt: skip
    log = await asyncio.to_thread(cluster.log)
    stage.check("the stacks are in the log", "most recent call first" in log)
    stage.check("the engine died of hanging", "hung" in log)
    stage.history.mark("engine 0 stuck", "note").at = back_at - seconds
    await stage.settle()
    await _legal_prefill(stage)


async def _legal_prefill(stage: Stage) -> None:
    """Steps that take longer than the hang timeout, because there is so much to compute."""
    if stage.uses_model:
        return
    await stage.launch("--simulated-prefill-rate=120")
    prompt = [token % 300 + 3 for token in range(LEGAL_PREFILL_TOKENS)]
    fields = {
        "prompt": prompt,
        "max_tokens": 4,
        "stream": True,
        "return_token_ids": True,
        "ignore_eos": True,
        "temperature": 0.0,
    }
    asked = asyncio.create_task(stage.ask(Body("long prefill", COMPLETIONS, fields)))
    await until(asked.done, 90, "the answer to a long prompt")
    exchange = asked.result()
    stage.check("a long prefill is answered", exchange.is_whole, exchange.error)
    stage.figure("a legal prefill", exchange.ttft_seconds or 0.0, "s")
    deaths = await num_deaths(stage)
    stage.check("a long prefill is no hang", deaths == 0, f"{deaths} deaths")
    await stage.settle()


DRILLS = (
    Drill(
        "freeze-engine",
        "An engine is stopped for a while: a short stop costs nobody anything, after a long one "
        "its streams go on elsewhere, and nothing of it is believed any more.",
        freeze_engine,
    ),
    Drill(
        "stuck-step",
        "A forward pass never returns: the verdict comes within the limit with the stacks in the "
        "log; a long prefill gives no false verdict.",
        stuck_step,
    ),
)
