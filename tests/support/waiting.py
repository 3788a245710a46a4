"""Waiting for something to become true, with a deadline in place of a fixed sleep."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

POLL_SECONDS = 0.02

T = TypeVar("T")


def wait_until(predicate: Callable[[], T], timeout_seconds: float = 10.0) -> T:
    """The first truthy answer of `predicate`. Raises AssertionError if none comes in time."""
    deadline = time.monotonic() + timeout_seconds
    while not (answer := predicate()):
        assert time.monotonic() < deadline, f"not within {timeout_seconds} s: {predicate}"
        time.sleep(POLL_SECONDS)
    return answer


async def wait_until_async(predicate: Callable[[], T], timeout_seconds: float = 10.0) -> T:
    """The same, with the event loop running on meanwhile."""
    deadline = time.monotonic() + timeout_seconds
    while not (answer := predicate()):
        assert time.monotonic() < deadline, f"not within {timeout_seconds} s: {predicate}"
        await asyncio.sleep(POLL_SECONDS)
    return answer
