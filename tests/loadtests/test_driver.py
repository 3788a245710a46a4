import asyncio
import time

from loadtests.driver import Driver
from loadtests.record import RequestRecord
from loadtests.workload import Ask

ASKS = [Ask("/", b"%d" % number) for number in range(6)]


async def test_a_closed_loop_keeps_so_many_in_flight_and_no_more() -> None:
    seen: list[int] = []

    async def complete(ask: Ask, due_at: float) -> RequestRecord:
        seen.append(driver.progress.in_flight)
        await asyncio.sleep(0)
        return RequestRecord(due_at)

    driver = Driver(complete, ASKS)
    await driver.closed_loop(2)
    assert len(driver.progress.records) == 6
    assert max(seen) == 2
    assert driver.progress.in_flight == 0


async def test_an_open_loop_sends_the_next_request_whatever_became_of_the_last() -> None:
    all_sent = asyncio.Event()

    async def complete(ask: Ask, due_at: float) -> RequestRecord:
        assert time.monotonic() > due_at - 0.001, "sent before its time"
        if driver.progress.in_flight == len(ASKS):
            all_sent.set()
        await all_sent.wait()
        return RequestRecord(due_at)

    driver = Driver(complete, ASKS)
    start = time.monotonic()
    await driver.open_loop([0.0, 0.0, 0.01, 0.01, 0.02, 0.03])
    due = sorted(record.due_at - start for record in driver.progress.records)
    assert due[-1] - due[0] > 0.0299
