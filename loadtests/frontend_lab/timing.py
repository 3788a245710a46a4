"""How long something takes the thread that does it."""

import time
import timeit
from collections.abc import Callable
from statistics import median


def microseconds_per_token(work: Callable[[], object], tokens: int, repeats: int) -> float:
    """The median over some runs of `work`, which handles so many tokens."""
    times = timeit.repeat(work, timer=time.thread_time, repeat=repeats, number=1)
    return 1e6 * median(times) / tokens
