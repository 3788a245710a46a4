"""The table of a comparison, for a terminal and a page."""

import re

from loadtests.peers_lab.text import NONE, peers_markdown, peers_text, turn_text
from tests.loadtests.peers_lab.made_up import comparison, turn

OURS = [turn("ours", 0, 30.0), turn("ours", 1, 20.0)]
PEER = [turn("peer", 0, 10.0), turn("peer", 1, 10.0)]


def rows(text: str) -> dict[str, list[str]]:
    """The cells of each row of the terminal's table, by the row's first."""
    split = (re.split(r"  +", line.rstrip()) for line in text.splitlines() if line)
    return {first: cells for first, *cells in split}


def test_a_row_shows_both_servers_and_their_ratio() -> None:
    table = rows(peers_text(comparison(*OURS, *PEER)))
    assert table[""] == ["ours", "peer", "ours / peer"]
    assert table["output tokens/s"] == ["25.0 [20.0–30.0]", "10.0", "2.50 [2.00–3.00]"]
    assert table["TTFT p50, ms"] == ["100.0", "100.0", "1.00"]
    assert table["failed requests"] == ["0 of 2", "0 of 2"]


def test_start_and_memory_are_shown_if_a_server_was_started() -> None:
    assert "start, s" not in rows(peers_text(comparison(*OURS, *PEER)))
    started = turn("ours", start_seconds=2.5, memory_bytes=300 * 2**20)
    table = rows(peers_text(comparison(started, turn("peer"))))
    assert table["start, s"] == ["2.5", NONE, NONE]
    assert table["memory, MiB"] == ["300", NONE, NONE]


def test_a_line_says_what_was_demanded_and_found() -> None:
    kept = peers_text(comparison(*OURS, *PEER, lines={"peer": 2.5}))
    assert "✓ output tokens/s over those of peer: at least 2.5 (2.50 [2.00–3.00])" in kept
    missed = peers_text(comparison(*OURS, *PEER, lines={"peer": 2.6}))
    assert "✗ output tokens/s over those of peer: at least 2.6" in missed


def test_the_markdown_has_rows_as_wide_as_their_headings() -> None:
    page = peers_markdown(comparison(*OURS, *PEER, turn("third", 0)), "two cores")
    table = [line for line in page.splitlines() if line.startswith("|")]
    assert len({row.count("|") for row in table}) == 1
    assert "|  | ours | peer | third | ours / peer | ours / third |" in table
    assert page.startswith("Measured on two cores")
    assert "4 requests, 2 at once, 8 tokens in and 3 out, 2 rounds from seed 7" in page


def test_a_turn_is_told_with_its_start_and_its_errors() -> None:
    told = turn_text(turn("ours", 1, 12.3, errors=2, start_seconds=4.0))
    assert told.startswith("round 2, ours: 12.3 output tokens/s, 1 of 3 in ")
    assert "started in 4.0 s" in told
    assert "2 × HTTP 500" in told
