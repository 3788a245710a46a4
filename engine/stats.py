"""One frozen picture of an engine after a step: metrics and load reports are both made from it."""

from dataclasses import dataclass

from engine.scheduling.counters import RequestTimings
from engine.speed_model import Speeds


@dataclass(frozen=True, slots=True)
class EngineStats:
    """How busy an engine is and how fast; counters run since its start."""

    step: int
    """Number of finished steps."""
    waiting: int
    running: int
    waiting_prompt_tokens: int
    """Context tokens still to be computed, in waiting and running requests; what the cache holds
    of a waiting request is not known before its admission, and not deducted."""
    running_tokens: int
    """Tokens whose KV running requests hold."""
    total_blocks: int
    used_blocks: int
    """Blocks that running requests hold."""
    cached_blocks: int
    """Blocks that nobody holds but that still answer for a prefix."""
    preemptions: int
    prefix_queries: int
    """Prompt tokens looked up in the prefix cache."""
    prefix_hits: int
    """Prompt tokens found there."""
    computed_tokens: int
    """Tokens that all steps computed, recomputation included."""
    step_tokens: int
    """Tokens that the last step computed."""
    step_seconds: float
    """How long the last step took."""
    speeds: Speeds
    finished: tuple[RequestTimings, ...]
    """The requests that have ended since the previous snapshot."""
    unpassed_prompt_tokens: int = 0
    """Of `waiting_prompt_tokens`, those of tenants that do not crowd out others."""
    crowding: frozenset[str] = frozenset()
    """The tenants that do."""

    @property
    def kv_cache_usage(self) -> float:
        """Share of the blocks that running requests hold, 0 to 1."""
        return self.used_blocks / self.total_blocks

    @property
    def is_busy(self) -> bool:
        """Whether it has anything to do."""
        return self.waiting + self.running > 0
