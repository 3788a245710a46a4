"""The price of one stage of a token's way."""

import msgspec


class StageCost(msgspec.Struct, frozen=True):
    """In processor time of the thread that does it."""

    stage: str
    microseconds_per_token: float
