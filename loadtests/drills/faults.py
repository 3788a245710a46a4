"""Faults that many drills share: kill, freeze, thaw a process, with its mark on the timeline."""

import asyncio
import os
import signal

from cluster.launch.status import ProcessStatus
from loadtests.drills.processes import send_signal
from loadtests.drills.stage import Stage


async def kill(stage: Stage, name: str) -> ProcessStatus:
    """`kill -9` of a process; gives what it was."""
    process = await asyncio.to_thread(stage.cluster.find, name)
    stage.fault(f"kill {name}")
    send_signal(process.pid, lambda pid: os.kill(pid, signal.SIGKILL))
    return process


async def until_back(stage: Stage, before: ProcessStatus) -> float:
    """Seconds from now until the successor of a process is ready."""
    return await asyncio.to_thread(
        stage.cluster.wait_until_restarted, before.name, before.incarnation + 1
    )


async def kill_and_wait(stage: Stage, name: str) -> float:
    """Seconds from the kill of a process until its successor is ready."""
    before = await kill(stage, name)
    return await until_back(stage, before)


async def freeze(stage: Stage, name: str) -> ProcessStatus:
    """SIGSTOP of a process; gives what it was."""
    process = await asyncio.to_thread(stage.cluster.find, name)
    stage.fault(f"freeze {name}")
    send_signal(process.pid, lambda pid: os.kill(pid, signal.SIGSTOP))
    return process


def thaw(stage: Stage, process: ProcessStatus) -> bool:
    """SIGCONT; False if the process has been ended meanwhile."""
    is_there = send_signal(process.pid, lambda pid: os.kill(pid, signal.SIGCONT))
    if is_there:
        stage.recovered(f"thaw {process.name}")
    return is_there


async def num_deaths(stage: Stage) -> int:
    """How often engines have been started anew."""
    engines = await asyncio.to_thread(stage.cluster.processes, "engine")
    return sum(engine.incarnation - 1 for engine in engines)


def tokens_between(stage: Stage, start: float, end: float) -> int:
    """Tokens that came to all clients in a span of time."""
    return sum(
        arrival.num_tokens
        for exchange in stage.history.exchanges
        for arrival in exchange.arrivals
        if start <= arrival.at < end
    )


async def wait(seconds: float) -> None:
    """Let the load go on for a while: a drill's time is part of what it does."""
    await asyncio.sleep(seconds)
