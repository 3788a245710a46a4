"""How long a new request would wait for its first token, by what was measured. Pure."""

from math import exp
from typing import NamedTuple

from frontend.routing.speeds import Speeds, decode_tokens_per_second
from frontend.routing.view import RoutingView

MEMORY_SECONDS = 10.0
"""A measured drain counts a third after so long."""
PRIOR_SECONDS = 1.0
"""What is expected of the engines counts like so long a measurement at first, and a third of it after
so long a measurement."""


class Backlog(NamedTuple):
    """What the engines have to compute before anything new, and how fast they are, all together."""

    num_engines: int = 0
    """Engines that would get a request now."""
    uncomputed_tokens: int = 0
    """Prompt tokens that are there already, or on the way."""
    prefill_tokens_per_second: float = 0.0
    num_frontends: int = 1
    waiting_requests: int = 0
    """Requests that wait in engines for a place, or are on the way to them."""
    decode_tokens_per_second: float = 0.0
    """What those that run are given; 0 while nothing runs, or nothing was measured."""

    @classmethod
    def of(cls, view: RoutingView) -> "Backlog":
        """By the newest reports, and the prior where nothing was measured yet."""
        prior = Speeds().prefill_tokens_per_second
        uncomputed, waiting, speed, decode_speed = 0, 0, 0.0, 0.0
        for load in view.loads:
            uncomputed += view.num_frontends * load.sent.uncomputed_tokens
            uncomputed -= load.withdrawn.uncomputed_tokens
            waiting += view.num_frontends * load.sent.requests - load.withdrawn.requests
            measured = 0.0
            if load.report is not None:
                uncomputed += load.report.waiting_prompt_tokens
                waiting += load.report.waiting
                measured = load.report.prefill_tokens_per_second
                decode_speed += decode_tokens_per_second(load.report)
            speed += measured or prior
        return cls(
            len(view.loads),
            max(0, uncomputed),
            speed,
            view.num_frontends,
            max(0, waiting),
            decode_speed,
        )

    def prefill_seconds(self, prompt_tokens: int) -> float:
        """Until a prompt that is sent now has been computed. There must be an engine."""
        own_seconds = prompt_tokens * self.num_engines / self.prefill_tokens_per_second
        return self.uncomputed_tokens / self.prefill_tokens_per_second + own_seconds

    def drain_tokens_per_second(self, context_tokens: int, cost_tokens: int) -> float:
        """What one frontend's queue of so many tokens should lose, by the speeds of the engines."""
        seconds = context_tokens / self.prefill_tokens_per_second
        if self.decode_tokens_per_second:
            seconds += (cost_tokens - context_tokens) / self.decode_tokens_per_second
        return cost_tokens / seconds / self.num_frontends


class DrainRate:
    """How many tokens a second leave a queue towards the engines, while somebody waits.

    A mean over the last seconds of waiting, however few requests they were: what leaves at once,
    since a batch ended together, must not look like a speed. Whoever joins an empty queue and leaves
    at once tells only how much comes in; that does not count.
    """

    def __init__(self) -> None:
        self._tokens, self._engine_seconds = 0.0, 0.0
        """Of what was measured; older ones count less."""
        self._prior_seconds = PRIOR_SECONDS
        self._sent_tokens = 0
        self._looked_at: float | None = None
        """When time was last taken; never while nobody waits."""

    def on_sent(self, tokens: int) -> None:
        """A request of so many tokens has left."""
        self._sent_tokens += tokens

    def on_empty(self) -> None:
        """Nobody waits any more."""
        self._looked_at = None

    def look(self, now: float, num_engines: int) -> None:
        """Take the time, and count what has left since the last time."""
        if self._looked_at is not None and num_engines:
            seconds = now - self._looked_at
            decay = exp(-seconds / MEMORY_SECONDS)
            self._tokens = decay * self._tokens + self._sent_tokens
            self._engine_seconds = decay * self._engine_seconds + seconds * num_engines
            self._prior_seconds *= exp(-seconds / PRIOR_SECONDS)
        self._looked_at = now
        self._sent_tokens = 0

    def tokens_per_second(self, num_engines: int, prior: float) -> float:
        """The rate with this number of engines, never 0; `prior` until enough was measured."""
        tokens = self._tokens + self._prior_seconds * prior
        engine_seconds = self._engine_seconds + self._prior_seconds * num_engines
        return max(1.0, num_engines * tokens / engine_seconds)
