"""The timeline of a history as a picture: who was under way when, where tokens came, what broke.

A row is a request; with many of them, a row is a client that sends one request after another.
"""

from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple

from loadtests.drills.history import Exchange, History, Mark

WIDTH = 1080
LEFT, RIGHT = 12, 12
LABEL_ROWS, LABEL_HEIGHT = 3, 15
MANY_MARKS = 40
"""More are drawn thin, and few of them are named: the rest would hide what they mean."""
AXIS_HEIGHT = 26
BIN_PIXELS = 1.5
MOST_ROWS_OF_ONE = 48
"""More requests than these share rows."""
MOST_ROWS = 420
LEAST_GAP_SECONDS = 0.5
MOST_JOINED_PIXELS = 7
LEAST_DETAILED_PIXELS = 3.0
LABEL_CHARACTER_PIXELS = 6.1
TARGET_TICKS = 10
TICK_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)

KIND_COLOURS = ("#3b6fb6", "#d9822b", "#4a9c5d", "#8a63b8", "#b5485d", "#2f9e9e", "#a0762c",
                "#c45aa0", "#5c7d2f", "#5b6bd6", "#7a6a5f")  # fmt: skip
MARK_COLOURS = {"fault": "#c62828", "recovery": "#2e7d32", "note": "#607d8b"}
GAP_COLOUR, FAILED_COLOUR, TRACK_COLOUR, TEXT_COLOUR = "#e53935", "#000000", "#e4e7ec", "#475467"


class Window(NamedTuple):
    """The span of time that is shown, on the clock of the history."""

    start: float
    end: float

    def x(self, at: float) -> float:
        """Where a moment is, in pixels from the left."""
        share = (at - self.start) / max(1e-9, self.end - self.start)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def has(self, at: float) -> bool:
        """Whether a moment is shown."""
        return self.start <= at <= self.end


class Span(NamedTuple):
    """Tokens that came without a gap, in pixels."""

    start: float
    end: float
    density: int
    """0 for thin, 1 for dense."""


def whole_window(history: History) -> Window:
    """From the first request that is no reference, or the first mark, to the end of all."""
    begins = [e.sent_at for e in shown(history)] + [mark.at for mark in history.marks]
    ends = [e.ended_at or e.sent_at for e in shown(history)] + [mark.at for mark in history.marks]
    if not begins:
        return Window(history.began_at, history.began_at + 1.0)
    start, end = min(begins), max(ends)
    margin = max(0.1, (end - start) * 0.01)
    return Window(start - margin, end + margin)


def close_up(history: History, seconds: float = 8.0) -> Window | None:
    """The span about the first fault that a request felt; None where the whole is short enough."""
    whole = whole_window(history)
    faults = [mark.at for mark in history.marks if mark.kind == "fault"]
    if whole.end - whole.start < 4 * seconds or not faults:
        return None
    moved = [exchange for exchange in shown(history) if exchange.migrations]
    felt = [at for at in faults if any(exchange.overlaps(at, at) for exchange in moved)]
    at = (felt or faults)[0]
    return Window(at - seconds / 4, at + seconds * 3 / 4)


def shown(history: History) -> list[Exchange]:
    """The requests of the drill itself, the oldest first."""
    return sorted((e for e in history.exchanges if not e.is_reference), key=lambda e: e.sent_at)


def kinds_of(history: History) -> list[str]:
    """The kinds of requests, in the order of their colours."""
    return list(dict.fromkeys(exchange.kind for exchange in shown(history)))


def kind_colours(kinds: Sequence[str]) -> dict[str, str]:
    """A colour for each kind."""
    return {kind: KIND_COLOURS[i % len(KIND_COLOURS)] for i, kind in enumerate(kinds)}


def timeline_svg(history: History, window: Window | None = None) -> str:
    """The picture as an `<svg>` element."""
    window = window or whole_window(history)
    exchanges = [e for e in shown(history) if e.overlaps(window.start, window.end)]
    rows = pack_rows(exchanges)
    colours = kind_colours(kinds_of(history))
    top = LABEL_ROWS * LABEL_HEIGHT + 12
    pitch = row_pitch(len(rows))
    bottom = top + pitch * max(1, len(rows))
    height = bottom + AXIS_HEIGHT
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" height="{height:.0f}" font-family="system-ui, sans-serif" '
        f'font-size="11" role="img">'
    )
    parts = [head, *_axis(window, top, bottom)]
    for number, row in enumerate(rows):
        middle = top + pitch * (number + 0.5)
        for exchange in row:
            parts += _exchange(exchange, window, middle, pitch, colours[exchange.kind])
    parts += _marks(history.marks, window, top, bottom)
    return "".join([*parts, "</svg>"])


def row_pitch(num_rows: int) -> float:
    """Pixels from one row to the next: fewer for many, but never so few that they touch."""
    return min(16.0, max(2.6, 560 / max(1, num_rows)))


def pack_rows(exchanges: Sequence[Exchange]) -> list[list[Exchange]]:
    """Rows of requests that do not overlap: a row each while there are few."""
    if len(exchanges) <= MOST_ROWS_OF_ONE:
        return [[exchange] for exchange in exchanges]
    rows: list[list[Exchange]] = []
    free_at: list[float] = []
    for exchange in exchanges:
        end = float("inf") if exchange.ended_at is None else exchange.ended_at
        for number, at in enumerate(free_at):
            if at <= exchange.sent_at:
                rows[number].append(exchange)
                free_at[number] = end
                break
        else:
            if len(rows) < MOST_ROWS:
                rows.append([exchange])
                free_at.append(end)
    return rows


def token_spans(exchange: Exchange, window: Window) -> list[Span]:
    """Where tokens came, as stretches of pixels without a gap, by how many came."""
    bins: dict[int, int] = {}
    for arrival in exchange.arrivals:
        if window.has(arrival.at):
            number = int(window.x(arrival.at) / BIN_PIXELS)
            bins[number] = bins.get(number, 0) + arrival.num_tokens
    if not bins:
        return []
    usual = sorted(bins.values())[len(bins) // 2]
    longest_join = _longest_join(sorted(bins))
    spans: list[Span] = []
    for number in sorted(bins):
        start, end = number * BIN_PIXELS, (number + 1) * BIN_PIXELS
        density = 1 if bins[number] * 4 > usual else 0
        last = spans[-1] if spans else None
        if last and last.density == density and start - last.end <= longest_join:
            spans[-1] = last._replace(end=end)
        else:
            spans.append(Span(start, end, density))
    return spans


def _longest_join(bins: Sequence[int]) -> float:
    """Pixels between two tokens that still belong to one even stream; 0 where they can be told apart."""
    distances = sorted(later - earlier for earlier, later in pairwise(bins))
    if not distances:
        return 0.0
    usual = distances[len(distances) // 2] * BIN_PIXELS
    return 2 * usual if usual < MOST_JOINED_PIXELS else 0.0


def gaps_of(exchange: Exchange) -> list[tuple[float, float]]:
    """Spans between two tokens that are far longer than usual in this answer."""
    times = [arrival.at for arrival in exchange.arrivals]
    lengths = sorted(later - earlier for earlier, later in pairwise(times))
    if not lengths:
        return []
    limit = max(LEAST_GAP_SECONDS, 5 * lengths[len(lengths) // 2])
    return [(earlier, later) for earlier, later in pairwise(times) if later - earlier > limit]


# ── the parts of the picture ──


def _axis(window: Window, top: float, bottom: float) -> Iterable[str]:
    seconds = window.end - window.start
    step = next((s for s in TICK_STEPS if seconds / s <= TARGET_TICKS), TICK_STEPS[-1])
    tick = 0.0
    while tick <= seconds:
        x = window.x(window.start + tick)
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top:.0f}" y2="{bottom + 4:.0f}" '
            f'stroke="#eef0f3"/><text x="{x:.1f}" y="{bottom + 17:.0f}" fill="{TEXT_COLOUR}" '
            f'text-anchor="{_anchor(x)}">{tick:g} s</text>'
        )
        tick = round(tick + step, 6)


def _anchor(x: float) -> str:
    """Where a tick's text stands, so that none is cut at the edges."""
    return "start" if x < LEFT + 20 else "end" if x > WIDTH - RIGHT - 20 else "middle"


def _exchange(
    exchange: Exchange, window: Window, middle: float, pitch: float, colour: str
) -> Iterable[str]:
    thick = max(1.6, pitch * 0.62)
    start = max(LEFT, window.x(exchange.sent_at))
    end = window.x(min(exchange.ended_at or window.end, window.end))
    if end - start < LEAST_DETAILED_PIXELS and not exchange.failure:
        yield (
            f'<rect x="{start:.1f}" y="{middle - thick / 2:.1f}" width="{max(0.8, end - start):.1f}" '
            f'height="{thick:.1f}" fill="{colour}"/>'
        )
        return
    yield f"<g><title>{escape(_describe(exchange))}</title>"
    yield (
        f'<rect x="{start:.1f}" y="{middle - thick / 2:.1f}" width="{max(0.8, end - start):.1f}" '
        f'height="{thick:.1f}" rx="{min(2.0, thick / 3):.1f}" fill="{TRACK_COLOUR}"/>'
    )
    paths = ["", ""]
    for span in token_spans(exchange, window):
        paths[span.density] += f"M{span.start:.1f} {middle:.1f}H{span.end:.1f}"
    for path, opacity in zip(paths, (0.55, 1.0), strict=True):
        if path:
            yield (
                f'<path d="{path}" stroke="{colour}" stroke-width="{thick:.1f}" '
                f'opacity="{opacity}" fill="none"/>'
            )
    for gap_start, gap_end in gaps_of(exchange):
        if window.has(gap_end) or window.has(gap_start):
            x1 = max(LEFT, window.x(gap_start)) + 1
            x2 = min(WIDTH - RIGHT, window.x(gap_end)) - 1
            yield (
                f'<path d="M{x1:.1f} {middle:.1f}H{max(x1 + 1, x2):.1f}" stroke="{GAP_COLOUR}" '
                f'stroke-width="{max(1.0, thick * 0.3):.1f}"/>'
            )
    if exchange.failure and window.has(exchange.ended_at or 0.0):
        arm = max(2.0, thick / 2)
        yield (
            f'<path d="M{end - arm:.1f} {middle - arm:.1f}l{2 * arm:.1f} {2 * arm:.1f}'
            f'm0 {-2 * arm:.1f}l{-2 * arm:.1f} {2 * arm:.1f}" '
            f'stroke="{FAILED_COLOUR}" stroke-width="1.3"/>'
        )
    elif exchange.ended_at is not None and window.has(exchange.ended_at):
        yield (
            f'<rect x="{end - 1:.1f}" y="{middle - thick / 2:.1f}" width="1" '
            f'height="{thick:.1f}" fill="#ffffff"/>'
        )
    yield "</g>"


def _marks(marks: Sequence[Mark], window: Window, top: float, bottom: float) -> Iterable[str]:
    visible = sorted((mark for mark in marks if window.has(mark.at)), key=lambda mark: mark.at)
    are_many = len(visible) > MANY_MARKS
    ends = [0.0] * (1 if are_many else LABEL_ROWS)
    opacity = 0.35 if are_many else 0.8
    for mark in visible:
        x, colour = window.x(mark.at), MARK_COLOURS[mark.kind]
        dashes = "" if mark.kind == "fault" else ' stroke-dasharray="4 3"'
        yield (
            f'<g><title>{escape(mark.text)}</title><line x1="{x:.1f}" x2="{x:.1f}" '
            f'y1="{top - 4:.0f}" y2="{bottom:.0f}" stroke="{colour}" stroke-width="1.2"{dashes} '
            f'opacity="{opacity}"/><path d="M{x - 3.5:.1f} {top - 8:.0f}h7l-3.5 6z" fill="{colour}"/></g>'
        )
        yield from _label(mark.text, x, colour, ends, top)


def _label(text: str, x: float, colour: str, ends: list[float], top: float) -> Iterable[str]:
    """The label in the first of the rows above that has room for it; none where none has."""
    width = len(text) * LABEL_CHARACTER_PIXELS + 8
    start = min(max(x - 4, LEFT), WIDTH - RIGHT - width)
    for row, end in enumerate(ends):
        if end <= start:
            ends[row] = start + width
            y = top - 12 - row * LABEL_HEIGHT
            yield f'<text x="{start:.1f}" y="{y:.0f}" fill="{colour}">{escape(text)}</text>'
            return


def _describe(exchange: Exchange) -> str:
    parts = [exchange.kind, f"{exchange.num_tokens} tokens"]
    if exchange.migrations:
        parts.append(f"moved {exchange.migrations} times")
    if exchange.longest_gap_seconds:
        parts.append(f"longest gap {exchange.longest_gap_seconds:.2f} s")
    if exchange.failure:
        parts.append(f"{exchange.failure}: {exchange.error}")
    return ", ".join(parts)
