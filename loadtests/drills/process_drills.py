"""Drills of everybody but engines: coordinator, frontends, launcher."""

import asyncio
import os
import signal
import time

from loadtests.drills.blocking_http import ask_http
from loadtests.drills.cluster import Cluster, running
from loadtests.drills.drill import Drill
from loadtests.drills.faults import (
    freeze,
    kill,
    kill_and_wait,
    num_deaths,
    thaw,
    tokens_between,
    until_back,
    wait,
)
from loadtests.drills.history import Exchange
from loadtests.drills.kill_drills import MANY_RESTARTS
from loadtests.drills.load import Load
from loadtests.drills.processes import send_signal
from loadtests.drills.stage import Stage
from loadtests.drills.waiting import POLL_SECONDS, until, wait_until

MOST_LOST_PERCENT = 5.0
WHOLE_AGAIN_SECONDS = 2.0
WINDOW_SECONDS = 4.0
"""Goodput is compared over so long, half of it before a fault and half after."""
ORPHAN_SECONDS = 5.0
ABSENCE_SECONDS, SHORT_ABSENCE_SECONDS = 30.0, 6.0
STATELESS_SECONDS = 1.0
KNOCK_SECONDS = 0.05


async def kill_coordinator(stage: Stage) -> None:
    """Again and again, and then for long: nobody but the launcher notices."""
    cluster = await stage.launch(MANY_RESTARTS)
    whole_seconds, killed_at = [], []
    async with stage.load(concurrency=8) as load:
        for _ in range(stage.scaled(20, 3)):
            await _steady(load)
            killed_at.append(time.monotonic())
            await kill_and_wait(stage, "coordinator")
            back_at = time.monotonic()
            await asyncio.to_thread(_until_whole, cluster)
            whole_seconds.append(time.monotonic() - back_at)
            await wait(WINDOW_SECONDS / 2)
        await _do_without_coordinator(stage)
    _check_goodput(stage, killed_at)
    stage.figure("coordinator kills", len(killed_at))
    stage.check_at_most(
        "whole again after its restart, longest", max(whole_seconds), WHOLE_AGAIN_SECONDS, "s"
    )
    stage.check("no engine was lost by it", await num_deaths(stage) == 0)
    await stage.settle()


async def _do_without_coordinator(stage: Stage) -> None:
    """Away for half a minute: the goodput of that time, compared to as long a time before."""
    seconds = max(SHORT_ABSENCE_SECONDS, stage.scale * ABSENCE_SECONDS)
    await wait(seconds)
    stage.fault("keep the coordinator away")
    began_at = time.monotonic()
    await asyncio.to_thread(keep_coordinator_away, stage.cluster, seconds)
    ended_at = time.monotonic()
    await asyncio.to_thread(_until_whole, stage.cluster)
    stage.recovered("the coordinator may stay")
    before = tokens_between(stage, began_at - seconds, began_at) / seconds
    during = tokens_between(stage, began_at, ended_at) / (ended_at - began_at)
    stage.figure("time without a coordinator", ended_at - began_at, "s")
    lost = max(0.0, 100 * (1 - during / max(1.0, before)))
    stage.check_at_most("goodput lost without a coordinator", lost, MOST_LOST_PERCENT, "%")


def keep_coordinator_away(cluster: Cluster, seconds: float) -> None:
    """Kill the coordinator, and stop whoever is to follow it, for so long. Blocks.

    A successor that is stopped at its birth costs nothing; one that is killed again and again would
    make the launcher spawn tens of them a second, whose start is all that would be measured.
    """
    deadline = time.monotonic() + seconds
    stopped = {cluster.kill("coordinator")}
    try:
        while time.monotonic() < deadline:
            pid = cluster.find("coordinator").pid
            if pid not in stopped:
                send_signal(pid, lambda target: os.kill(target, signal.SIGSTOP))
                stopped.add(pid)
            time.sleep(POLL_SECONDS)
    finally:
        for pid in stopped:
            send_signal(pid, lambda target: os.kill(target, signal.SIGCONT))


async def freeze_coordinator(stage: Stage) -> None:
    """Frozen for seconds: requests go on by what the frontends know."""
    cluster = await stage.launch(MANY_RESTARTS)
    frozen_at, whole_seconds = [], []
    async with stage.load(concurrency=8) as load:
        for _ in range(stage.scaled(6, 2)):
            await _steady(load)
            frozen_at.append(time.monotonic())
            process = await freeze(stage, "coordinator")
            await wait(WINDOW_SECONDS)
            if not thaw(stage, process):
                await until_back(stage, process)
            thawed_at = time.monotonic()
            await asyncio.to_thread(_until_whole, cluster)
            whole_seconds.append(time.monotonic() - thawed_at)
            await wait(WINDOW_SECONDS / 2)
    _check_goodput(stage, frozen_at)
    stage.check_at_most(
        "whole again after it goes on, longest", max(whole_seconds), WHOLE_AGAIN_SECONDS, "s"
    )
    stage.check("no engine was lost by it", await num_deaths(stage) == 0)
    await stage.settle()


async def _steady(load: Load) -> None:
    await load.until_streaming()
    await wait(WINDOW_SECONDS / 2)


def _until_whole(cluster: Cluster) -> None:
    """Return once a frontend shows every engine with a load that the coordinator tells of."""

    def is_whole() -> bool:
        answer = cluster.get("/cluster")
        return answer.status == 200 and all(
            engine.get("load") and engine.get("chosen_here") for engine in answer.json()["engines"]
        )

    wait_until(is_whole, 30, "every engine is seen by the frontends again")


def _check_goodput(stage: Stage, faults_at: list[float]) -> None:
    """Tokens after the faults, compared to those before them."""
    half = WINDOW_SECONDS / 2
    before = sum(tokens_between(stage, at - half, at) for at in faults_at)
    after = sum(tokens_between(stage, at, at + half) for at in faults_at)
    lost = max(0.0, 100 * (before - after) / max(1, before))
    stage.figure("tokens a second before", before / half / len(faults_at))
    stage.check_at_most("goodput lost", lost, MOST_LOST_PERCENT, "%")


async def kill_frontend(stage: Stage) -> None:
    """Its own connections break, its requests leave the engines, and the port keeps answering."""
    cluster = await stage.launch(MANY_RESTARTS)
    leave_seconds, bad_knocks, num_knocks = [], 0, 0
    for number in range(stage.scaled(5, 2)):
        async with stage.load(concurrency=12, output_tokens=600) as load:
            await load.until_streaming(8)
            load.stop()  # from here on nobody new
            before = await kill(stage, f"frontend {number % 2}")
            killed_at = time.monotonic()
            knocks = asyncio.create_task(_knock(cluster.url, STATELESS_SECONDS * 2))
            await asyncio.to_thread(_until_only, cluster, load)
            leave_seconds.append(time.monotonic() - killed_at)
            await until_back(stage, before)
            answers = await knocks
            num_knocks += len(answers)
            bad_knocks += answers.count(0)
    broken = [exchange for exchange in stage.history.failed() if _is_broken(exchange)]
    whole = [e for e in stage.history.exchanges if e.is_whole and not e.is_reference]
    stage.figure("connections broken", len(broken))
    stage.figure("streams of the other frontend that went on", len(whole))
    stage.check("streams of the other frontend go on", bool(whole) and bool(broken))
    stage.check_at_most(
        "its requests leave the engines", max(leave_seconds), STATELESS_SECONDS, "s"
    )
    stage.check("the port keeps answering", bad_knocks <= num_knocks // 50,
                f"{bad_knocks} of {num_knocks} new connections not answered")  # fmt: skip
    await stage.settle(may_fail=_is_broken, exact_metrics=False)


def _is_broken(exchange: Exchange) -> bool:
    return exchange.failure == "broken"


def _until_only(cluster: Cluster, load: Load) -> None:
    """Return once engines hold no more choices than clients wait for."""

    def is_so() -> bool:
        held = sum((e.running or 0) + (e.waiting or 0) for e in cluster.processes("engine"))
        return held <= sum(_most_choices(exchange) for exchange in load.in_flight)

    wait_until(is_so, 10, "the dead frontend's requests have left the engines")


def _most_choices(exchange: Exchange) -> int:
    return 2 if exchange.kind in {"n-2", "prompts"} else 1


async def _knock(url: str, seconds: float) -> list[int]:
    """The status of one short request after the other, 0 for none."""
    answers = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            answer = await asyncio.to_thread(ask_http, url, "GET", "/health", seconds=5.0)
            answers.append(answer.status)
        except OSError:
            answers.append(0)
        await asyncio.sleep(KNOCK_SECONDS)
    return answers


async def kill_launcher(stage: Stage) -> None:
    """Its children do not outlive it, and what it leaves behind is in nobody's way."""
    cluster = await stage.launch()
    async with stage.load(concurrency=8) as load:
        await load.until_streaming()
        load.stop()
        pids = await asyncio.to_thread(cluster.all_pids)
        stage.fault("kill launcher")
        cluster.process.kill()
        killed_at = time.monotonic()
        await until(lambda: not running(pids), 4 * ORPHAN_SECONDS, "no process is left")
        seconds = time.monotonic() - killed_at
    stage.figure("processes", len(pids))
    stage.check_at_most("the last of them is gone", seconds, ORPHAN_SECONDS, "s")
    unended = [e for e in stage.history.exchanges if e.ended_at is None]
    stage.check("every request ended", not unended, f"{len(unended)} did not")
    fresh = await asyncio.to_thread(
        Cluster, "--dp=1", "--frontends=1", "--engine=simulated", directory=cluster.directory
    )
    try:
        await asyncio.to_thread(fresh.wait_until_ready)
        stage.check("a new one starts where the old one was", True)
    finally:
        await asyncio.to_thread(fresh.close)


DRILLS = (
    Drill(
        "kill-coordinator",
        "The coordinator is killed again and again, and kept away for 30 s: no request fails, "
        "goodput stays, and all is whole again within 2 s of its restart.",
        kill_coordinator,
        seconds=220,
    ),
    Drill(
        "freeze-coordinator",
        "The coordinator is stopped for seconds: no request fails, goodput stays, no engine is "
        "lost.",
        freeze_coordinator,
    ),
    Drill(
        "kill-frontend",
        "A frontend is killed: only its own connections break, its requests leave the engines "
        "within 1 s, and the port keeps answering.",
        kill_frontend,
        seconds=90,
    ),
    Drill(
        "kill-launcher",
        "The launcher is killed: nobody is left after 5 s, and what it left is in nobody's way.",
        kill_launcher,
    ),
)
