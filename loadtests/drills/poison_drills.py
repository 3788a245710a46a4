"""Drills of requests that kill the engine that computes them, among others that do not."""

import asyncio

from loadtests.drills.bodies import COMPLETIONS, Body
from loadtests.drills.drill import Drill
from loadtests.drills.faults import num_deaths
from loadtests.drills.history import Exchange
from loadtests.drills.kill_drills import MANY_RESTARTS
from loadtests.drills.stage import Stage
from loadtests.drills.waiting import until

POISON = "poison"
KINDS = ("segfault", "raise", "abort", "hang")
FATAL_POSITION = 20
ENDED_SECONDS = 90.0
LAST_TOKENS = {kind: 9 + number for number, kind in enumerate(KINDS)}
"""Each kind of poison has a prompt of its own."""


async def poison_prefill(stage: Stage) -> None:
    """The prompt itself kills."""
    await _poison(stage, condition="", most_deaths=2)


async def poison_decode(stage: Stage) -> None:
    """The twentieth output token kills."""
    await _poison(stage, condition=f":output={FATAL_POSITION}", most_deaths=3)


async def _poison(stage: Stage, condition: str, most_deaths: int) -> None:
    kinds = KINDS[: stage.scaled(len(KINDS), 2)]
    faults = [f"--inject-fault={kind}:prompt=7-7-{LAST_TOKENS[kind]}{condition}" for kind in kinds]
    cluster = await stage.launch(MANY_RESTARTS, *faults)
    async with stage.load(concurrency=12) as load:
        for kind in kinds:
            await load.until_streaming()
            before = await num_deaths(stage)
            stage.fault(f"poison: {kind}")
            exchange = await _ask(stage, kind)
            await asyncio.to_thread(cluster.wait_until_ready)
            deaths = await num_deaths(stage) - before
            stage.check_at_most(f"engines that {kind} cost", deaths, most_deaths)
            stage.check(
                f"{kind}: answered 500 engine_failed",
                (exchange.status, exchange.error_code) == (500, "engine_failed"),
                _describe(exchange),
            )
            again = await _ask(stage, kind)
            stage.check(f"{kind}: refused with 422 when it comes again", again.status == 422,
                        _describe(again))  # fmt: skip
            await load.until_tokens(200)
    innocents = [e for e in stage.history.exchanges if e.kind != POISON]
    failed = [e for e in innocents if e.failure]
    stage.figure("innocent requests", len(innocents))
    stage.figure("innocent requests moved", sum(bool(e.migrations) for e in innocents))
    stage.check("no innocent request failed", not failed, "; ".join(map(_describe, failed[:3])))
    convictions = await asyncio.to_thread(cluster.metric, "quadriga_request_convictions_total")
    stage.check("only the poison was convicted", convictions == len(kinds), f"{convictions:g}")
    await stage.settle(may_fail=lambda exchange: exchange.kind == POISON)


async def _ask(stage: Stage, kind: str) -> Exchange:
    fields = {
        "prompt": [11, 12, 13, 7, 7, LAST_TOKENS[kind], 14],
        "max_tokens": 2 * FATAL_POSITION,
        "ignore_eos": True,
        "seed": 1,
        "temperature": 0.5,
    }
    asked = asyncio.create_task(stage.ask(Body(POISON, COMPLETIONS, fields)))
    await until(asked.done, ENDED_SECONDS, "the end of the poison")
    return asked.result()


def _describe(exchange: Exchange) -> str:
    return f"{exchange.kind}: {exchange.status} {exchange.error_code} {exchange.error}".strip()


DRILLS = (
    Drill(
        "poison-prefill",
        "A request whose prompt kills its engine costs 2 engines at most, is answered 500 and then "
        "refused; no other request fails or is convicted.",
        poison_prefill,
    ),
    Drill(
        "poison-decode",
        "A request that kills its engine at an output token costs 3 engines at most, is answered "
        "500 and then refused; no other request fails or is convicted.",
        poison_decode,
    ),
)
