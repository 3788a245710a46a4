"""When requests come, in an open loop: whatever the engines do, the next one comes."""

import random
from collections.abc import Iterator


def gamma_arrivals(
    rate_per_second: float, seconds: float, variation: float, source: random.Random
) -> Iterator[float]:
    """Rising times below `seconds`; gaps are gamma distributed with this coefficient of variation.

    1 is a Poisson process, more comes in bursts.
    """
    shape = 1 / variation**2
    scale = 1 / (rate_per_second * shape)
    time = source.gammavariate(shape, scale)
    while time < seconds:
        yield time
        time += source.gammavariate(shape, scale)
