"""When requests are due, in an open loop: whatever the server does, the next one comes."""

import random


def poisson_arrivals(rate_per_second: float, number: int, seed: int) -> list[float]:
    """`number` arrival times in seconds from the start, rising, of a Poisson process of this rate.

    The first request is due at 0. Equal seeds give equal times.
    """
    generator = random.Random(f"arrivals {seed}")
    offsets: list[float] = []
    offset = 0.0
    for _ in range(number):
        offsets.append(offset)
        offset += generator.expovariate(rate_per_second)
    return offsets
