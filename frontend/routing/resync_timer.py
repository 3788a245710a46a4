"""When to ask an engine for its whole cache: not for what is still on its way, and not too often."""

from frontend.routing.prefix_index import PrefixIndex

EVENTS_LATE_SECONDS = 0.3
"""Reports may come with outputs, straight from the engine; block events come by the coordinator."""
ASK_AGAIN_SECONDS = 1.0


class ResyncTimer:
    """Watches one index: events that do not come although their number was heard of are lost."""

    def __init__(self) -> None:
        self._awaited_seq = 0
        """The newest number that was heard of at `_awaited_since`."""
        self._awaited_since = float("-inf")
        self._asked_at = float("-inf")

    def is_due(self, index: PrefixIndex, reported_seq: int, now: float) -> bool:
        """Whether to ask now; `reported_seq` is the newest number that the engine says it has told."""
        if not index.is_behind(self._awaited_seq):
            self._awaited_seq, self._awaited_since = reported_seq, now
        return (
            index.is_behind(self._awaited_seq)
            and now - self._awaited_since > EVENTS_LATE_SECONDS
            and now - self._asked_at >= ASK_AGAIN_SECONDS
        )

    def note_asked(self, now: float) -> None:
        """The engine was asked."""
        self._asked_at = now
