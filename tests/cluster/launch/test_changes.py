"""Waiting until something is so."""

import asyncio

from cluster.launch.changes import Changes


async def test_whoever_waits_looks_again_at_every_change() -> None:
    changes, seen = Changes(), [0]
    waiting = asyncio.create_task(changes.wait_until(lambda: seen[0] == 2, 600.0))
    for number in (1, 2):
        await asyncio.sleep(0)
        assert not waiting.done()
        seen[0] = number
        changes.notify()
    async with asyncio.timeout(5):
        assert await waiting


async def test_what_does_not_come_in_time_is_not_so() -> None:
    assert not await Changes().wait_until(lambda: False, 0.01)
    assert await Changes().wait_until(lambda: True, 0.0)
