"""A wait that is repeated for every token, with a limit."""

import asyncio
import time

import pytest

from frontend.wake_up import WakeUp
from tests.support.waiting import wait_until_async

LONG_SECONDS = 30.0


async def waiting(wake_up: WakeUp, limit_seconds: float | None = None) -> "asyncio.Task[bool]":
    """A task that waits by now."""
    task = asyncio.create_task(wake_up.wait(limit_seconds))
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_a_call_before_the_wait_is_not_lost_and_counts_once() -> None:
    wake_up = WakeUp()
    wake_up.call()
    wake_up.call()
    assert await wake_up.wait()
    assert not await wake_up.wait(0.001)


@pytest.mark.parametrize("limit_seconds", [None, LONG_SECONDS])
async def test_a_call_ends_the_wait(limit_seconds: float | None) -> None:
    wake_up = WakeUp()
    task = await waiting(wake_up, limit_seconds)
    wake_up.call()
    assert await task
    wake_up.close()


async def test_a_wait_without_a_call_lasts_for_its_limit() -> None:
    began_at = time.monotonic()
    assert not await WakeUp().wait(0.05)
    assert 0.049 <= time.monotonic() - began_at < LONG_SECONDS


async def test_the_limit_counts_from_each_wait_though_one_timer_serves_them_all() -> None:
    wake_up = WakeUp()
    task = await waiting(wake_up, LONG_SECONDS)
    timer = wake_up._timer
    assert timer is not None
    for _ in range(3):
        wake_up.call()
        assert await task
        task = await waiting(wake_up, LONG_SECONDS)
    assert wake_up._timer is timer
    wake_up.call()
    await task
    began_at = time.monotonic()
    assert not await wake_up.wait(0.02)  # which the timer that is set would not end in time
    assert 0.019 <= time.monotonic() - began_at < LONG_SECONDS


async def test_a_timer_that_comes_too_early_is_set_for_the_rest() -> None:
    wake_up = WakeUp()
    task = await waiting(wake_up, 0.5)
    timer_at = wake_up._timer_at
    loop = asyncio.get_running_loop()
    later = loop.time() + 0.02
    await wait_until_async(lambda: loop.time() > later)
    wake_up.call()
    assert await task
    task = await waiting(wake_up, 0.5)
    deadline = wake_up._deadline
    assert wake_up._timer_at == timer_at < deadline
    assert not await task
    assert loop.time() >= deadline


async def test_an_old_timer_does_not_end_a_wait_without_a_limit() -> None:
    wake_up = WakeUp()
    task = await waiting(wake_up, 0.01)
    wake_up.call()
    assert await task
    task = await waiting(wake_up)
    await wait_until_async(lambda: wake_up._timer is None)
    assert not task.done()
    wake_up.call()
    assert await task


async def test_a_cancelled_wait_leaves_the_next_as_it_is() -> None:
    wake_up = WakeUp()
    task = await waiting(wake_up, LONG_SECONDS)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    wake_up.call()
    assert await wake_up.wait()
    wake_up.close()
    assert wake_up._timer is None


async def test_a_wait_that_is_put_off_lasts_its_limit_from_then_on() -> None:
    wake_up, loop = WakeUp(), asyncio.get_running_loop()
    task = await waiting(wake_up, 0.1)
    began_at = loop.time()
    while loop.time() < began_at + 0.25:
        wake_up.postpone()
        await asyncio.sleep(0.01)
    put_off_at = loop.time()
    wake_up.postpone()
    assert not await task
    assert loop.time() - put_off_at >= 0.099


async def test_a_wait_without_a_limit_cannot_be_put_off() -> None:
    wake_up = WakeUp()
    wake_up.postpone()
    task = await waiting(wake_up)
    wake_up.postpone()
    wake_up.call()
    assert await task
