"""What happened: every request with every token, and every fault, in the order of time."""

import time
from typing import Any, Literal

import msgspec

FailureKind = Literal["", "refused", "error", "broken", "timeout"]


class Arrival(msgspec.Struct, array_like=True, gc=False):
    """Tokens of one choice that came together."""

    at: float
    """Seconds on the monotonic clock."""
    choice: int
    num_tokens: int


class Choice(msgspec.Struct):
    """One choice of an answer, put together from its events."""

    text: str = ""
    token_ids: list[int] = []
    num_logprobs: int = 0
    finish_reasons: list[str] = []
    """One for a choice that ended once."""


class Exchange(msgspec.Struct):
    """One request and all that came back; times on the monotonic clock."""

    kind: str
    """Which kind of body it has, such as `chat`."""
    path: str
    body: dict[str, Any]
    sent_at: float
    ended_at: float | None = None
    status: int | None = None
    first_byte_at: float | None = None
    """When the answer's head came."""
    headers: dict[str, str] = {}
    """Those of the answer, names in lower case."""
    arrivals: list[Arrival] = []
    choices: dict[int, Choice] = {}
    num_ends: int = 0
    """End marks of the stream, or whole bodies."""
    num_events_after_end: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    """As the answer's usage has them."""
    migrations: int = 0
    engines: list[int | None] = []
    """The engine that each choice was last on."""
    is_reference: bool = False
    """Asked before any fault, to compare others with."""
    failure: FailureKind = ""
    """Why there is no whole answer; empty for one."""
    error_code: str = ""
    error: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether it was answered as it should be."""
        return self.ended_at is not None and not self.failure

    @property
    def num_tokens(self) -> int:
        """Tokens that came, over all choices."""
        return sum(arrival.num_tokens for arrival in self.arrivals)

    @property
    def longest_gap_seconds(self) -> float:
        """Longest time between two tokens of one choice; 0.0 if none had two."""
        longest = 0.0
        last: dict[int, float] = {}
        for arrival in self.arrivals:
            longest = max(longest, arrival.at - last.get(arrival.choice, arrival.at))
            last[arrival.choice] = arrival.at
        return longest

    @property
    def ttft_seconds(self) -> float | None:
        """Time to the first token; None if none came."""
        return self.arrivals[0].at - self.sent_at if self.arrivals else None

    def overlaps(self, start: float, end: float) -> bool:
        """Whether it was under way at some moment of this span."""
        return self.sent_at <= end and (self.ended_at is None or self.ended_at >= start)


class Mark(msgspec.Struct):
    """A moment that belongs on the timeline."""

    at: float
    text: str
    kind: Literal["fault", "recovery", "note"] = "fault"


class Sample(msgspec.Struct):
    """What the launcher told of the engines at a moment."""

    at: float
    held: dict[str, int]
    """Requests running and waiting, by engine."""


class History(msgspec.Struct):
    """Everything that a drill saw."""

    began_at: float = msgspec.field(default_factory=time.monotonic)
    exchanges: list[Exchange] = []
    marks: list[Mark] = []
    samples: list[Sample] = []

    def mark(self, text: str, kind: Literal["fault", "recovery", "note"] = "fault") -> Mark:
        """Put a mark on the timeline, now."""
        self.marks.append(Mark(time.monotonic(), text, kind))
        return self.marks[-1]

    def failed(self) -> list[Exchange]:
        """Those that have ended without a whole answer."""
        return [exchange for exchange in self.exchanges if exchange.failure]

    def moved(self) -> list[Exchange]:
        """Those of which a choice went on in another engine."""
        return [exchange for exchange in self.exchanges if exchange.migrations]


def body_key(path: str, body: dict[str, Any]) -> str:
    """What two requests have in common that must get the same answer; streamed or not."""
    plain = {name: value for name, value in body.items() if name not in _NOT_IN_KEY}
    return path + msgspec.json.encode(plain, order="sorted").decode()


_NOT_IN_KEY = ("stream", "stream_options", "model", "data_parallel_rank", "priority")
