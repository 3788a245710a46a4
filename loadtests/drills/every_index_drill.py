"""The drill that kills the engine of one request at every output position, for every kind."""

import asyncio

from cluster.launch.status import ProcessStatus
from loadtests.drills.bodies import Body
from loadtests.drills.drill import Drill, DrillError
from loadtests.drills.faults import kill
from loadtests.drills.history import Exchange
from loadtests.drills.kill_drills import MANY_RESTARTS
from loadtests.drills.stage import Stage
from loadtests.drills.waiting import until

ENGINES = 4
OUTPUT_TOKENS = 12
SECONDS = 60.0


async def every_index(stage: Stage) -> None:
    """One request of each kind; its engine dies once so many of its tokens have come."""
    await stage.launch(MANY_RESTARTS, "--simulated-step-seconds=0.03", engines=ENGINES)
    bodies = await stage.expect_undisturbed(output_tokens=OUTPUT_TOKENS)
    kinds = {body.kind: body for body in bodies}
    step = 1 if stage.scale >= 1 else 5
    tried = moved = 0
    for body in kinds.values():
        for position in range(1, OUTPUT_TOKENS, step):
            exchange = await _ask_with_a_kill(stage, body, position)
            tried += 1
            moved += bool(exchange.migrations)
    stage.figure("positions tried", tried)
    stage.figure("answers that went on elsewhere", moved)
    stage.check("kills struck answers under way", moved >= tried * 0.7, f"{moved} of {tried}")
    await stage.settle()


async def _ask_with_a_kill(stage: Stage, body: Body, position: int) -> Exchange:
    sender = stage.sender()
    exchange = sender.new_exchange(body.kind, body.path, body.fields)
    asked = asyncio.create_task(sender.send(body.kind, body.path, body.fields, exchange))
    if body.fields["stream"]:
        await until(lambda: exchange.num_tokens >= position or asked.done(), SECONDS, "tokens")
    else:
        await asyncio.sleep(0.03 * position)
    engine = await _find_busy(stage, asked)
    if engine is not None:
        await kill(stage, engine.name)
    await until(asked.done, SECONDS, f"the answer to a {body.kind} request")
    await until_two_serve(stage)
    return exchange


async def _find_busy(stage: Stage, asked: "asyncio.Task[Exchange]") -> ProcessStatus | None:
    """The engine that has the only request; None if the answer is whole before it is found."""
    while not asked.done():
        engines = await asyncio.to_thread(stage.cluster.processes, "engine")
        for engine in engines:
            if engine.running or engine.waiting:
                return engine
    return None


async def until_two_serve(stage: Stage) -> None:
    """Return once there is an engine to die, and one to go on in."""
    for _ in range(round(SECONDS / 0.05)):
        engines = await asyncio.to_thread(stage.cluster.processes, "engine")
        if sum(engine.state == "ready" for engine in engines) >= 2:
            return
        await asyncio.sleep(0.05)
    raise DrillError("engines do not come back")


DRILLS = (
    Drill(
        "every-index",
        "One request of each kind, its engine killed at every output position: the same text each "
        "time.",
        every_index,
        seconds=300,
    ),
)
