"""A load during which the coordinator is away, and what its clients lose by that."""

import asyncio
import time
from collections.abc import Sequence

from loadtests.comparison.conversation_driver import ConversationDriver
from loadtests.drills.cluster import Cluster
from loadtests.drills.process_drills import keep_coordinator_away
from loadtests.record import RequestRecord

AWAY_SHARE = 0.5
"""Of the load's time, the second half: the first says what is usual."""
GOOD_TTFT_SECONDS = 1.0


async def run_with_absence(
    driver: ConversationDriver, cluster: Cluster, last_start_seconds: float
) -> float:
    """Hold the conversations, half of the time without a coordinator.

    The share of goodput that this cost; goodput is the share of good answers to what was due.
    """
    away_seconds = AWAY_SHARE * last_start_seconds
    async with asyncio.TaskGroup() as group:
        group.create_task(driver.run())
        await asyncio.sleep(last_start_seconds - away_seconds)
        start = time.monotonic()
        await asyncio.to_thread(keep_coordinator_away, cluster, away_seconds)
        end = time.monotonic()
    return goodput_lost(driver.progress.records, start, end)


def goodput_lost(records: Sequence[RequestRecord], start: float, end: float) -> float:
    """What fewer of the answers due from start to end were good than of those due before; 0 to 1.

    Shares and not numbers: how many are due in a span is chance.
    """
    usual = _good_share([record for record in records if record.due_at < start])
    then = _good_share([record for record in records if start <= record.due_at < end])
    return max(0.0, 1 - then / usual) if usual else 1.0


def _good_share(records: Sequence[RequestRecord]) -> float:
    return sum(map(_is_good, records)) / len(records) if records else 0.0


def _is_good(record: RequestRecord) -> bool:
    """Whole, and begun in time."""
    ttft = record.ttft_seconds
    return record.error_kind is None and ttft is not None and ttft <= GOOD_TTFT_SECONDS
