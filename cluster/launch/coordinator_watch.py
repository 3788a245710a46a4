"""Notices that the coordinator itself hangs, which nobody else can. Pure; takes `now`."""


class CoordinatorWatch:
    """Views come twice a second at the least: when they cease, the coordinator is of no use."""

    def __init__(self, limit_seconds: float) -> None:
        self._limit_seconds = limit_seconds
        self._heard_at: float | None = None
        self._looked_at: float | None = None

    def restarted(self) -> None:
        """A new coordinator was spawned; it is given all the time it needs for its first view."""
        self._heard_at = None

    def heard(self, now: float) -> bool:
        """A view came; whether it is this coordinator's first."""
        is_first = self._heard_at is None
        self._heard_at = now
        return is_first

    def silence(self, now: float) -> float | None:
        """For how long no view has come, if that is too long. To be asked every half second.

        A longer gap between two questions means that this process did not run: whatever has come
        meanwhile is not read yet, so its silence proves nothing.
        """
        has_paused = self._looked_at is not None and now - self._looked_at > self._limit_seconds / 2
        self._looked_at = now
        if self._heard_at is None:
            return None
        if has_paused:
            self._heard_at = now
        silence = now - self._heard_at
        return silence if silence > self._limit_seconds else None
