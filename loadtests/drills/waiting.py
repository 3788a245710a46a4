"""Waiting for something to become true, with a deadline in place of a fixed sleep."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from loadtests.drills.drill import DrillError

POLL_SECONDS = 0.02

T = TypeVar("T")


def wait_until(predicate: Callable[[], T], seconds: float, what: str) -> T:
    """The first truthy answer of `predicate`. Raises DrillError if none comes in time."""
    deadline = time.monotonic() + seconds
    while not (answer := predicate()):
        if time.monotonic() >= deadline:
            raise DrillError(f"not within {seconds:g} s: {what}")
        time.sleep(POLL_SECONDS)
    return answer


async def until(predicate: Callable[[], T], seconds: float, what: str) -> T:
    """The same on the event loop; `predicate` must not block."""
    deadline = time.monotonic() + seconds
    while not (answer := predicate()):
        if time.monotonic() >= deadline:
            raise DrillError(f"not within {seconds:g} s: {what}")
        await asyncio.sleep(POLL_SECONDS)
    return answer
