"""Two sides measured in turns, so that a slow minute of the machine is not one side's alone."""

from collections.abc import Callable

Side = Callable[[int], list[float]]
"""Measures so many repeats, one number each."""


def in_turns(ours: Side, theirs: Side | None, repeats: int) -> tuple[list[float], list[float]]:
    """Half of ours, all of theirs, the rest of ours; nothing of theirs where there is no such side."""
    first = -(-repeats // 2)
    before = ours(first)
    between = [] if theirs is None else theirs(repeats)
    return before + ours(repeats - first), between
