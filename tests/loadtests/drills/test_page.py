from html.parser import HTMLParser

import pytest

from loadtests.drills.page import drill_page
from loadtests.drills.verdict import Check, Figure, Outcome, Verdict, format_value, percentile
from loadtests.drills.verdict_text import markdown_table, summary_text, verdict_text
from tests.loadtests.drills.made_up import exchange, history

VOID = {"meta", "br", "img", "link"}


class Balance(HTMLParser):
    """Checks that every tag that is opened is closed, and collects addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in {"src", "href"}]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def verdict(name: str, outcome: Outcome = "passed") -> Verdict:
    return Verdict(
        name=name,
        promise="Nothing <happens> | at all.",
        outcome=outcome,
        seconds=12.3,
        checks=[Check("I1 every request ended", outcome == "passed", "a & b")],
        figures=[Figure("gap", 0.1234, "s"), Figure("kills", 100.0)],
        history=history(exchange(), exchange(1)),
        reason="no permission" if outcome == "skipped" else "",
        log_tail="<boom>" if outcome == "failed" else "",
    )


@pytest.mark.parametrize("outcome", ["passed", "failed", "skipped"])
def test_the_page_is_whole_and_needs_nothing_from_outside(outcome: Outcome) -> None:
    page = drill_page([verdict("kill-it", outcome), verdict("freeze-it")], "2 cores")
    balance = Balance()
    balance.feed(page)
    assert balance.open == []
    assert balance.addresses == ["#kill-it", "#freeze-it"]
    assert "<happens>" not in page
    assert "<boom>" not in page
    assert ("&lt;boom&gt;" in page) == (outcome == "failed")
    assert ("Skipped: no permission" in page) == (outcome == "skipped")


def test_the_terminal_gets_a_line_a_check_and_the_verdict_last() -> None:
    assert verdict_text(verdict("kill-it", "failed")).splitlines() == [
        "  ✗ I1 every request ended  (a & b)",
        "    gap: 0.123 s",
        "    kills: 100",
        "kill-it failed (12 s)",
    ]


def test_the_summary_names_what_failed_and_what_was_skipped() -> None:
    verdicts = [verdict("a"), verdict("b", "failed"), verdict("c", "skipped")]
    assert summary_text(verdicts) == "1 of 3 drills passed; failed: b; skipped: c"


def test_the_table_has_a_row_a_drill_and_no_broken_cell() -> None:
    table = markdown_table([verdict("a"), verdict("c", "skipped")], "2 cores")
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert rows[0] == (
        "| `a` | Nothing <happens> \\| at all. | passed | gap: 0.123 s; kills: 100 |"
    )
    assert "skipped: no permission" in rows[1]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1234, "0.123"), (1.234, "1.23"), (12.34, "12.3"), (123.4, "123"), (5.0, "5"), ("a", "a")],
)
def test_values_have_as_many_digits_as_make_sense(value: float | str, text: str) -> None:
    assert format_value(value) == text


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(number) for number in range(100)]
    assert (percentile(values, 0.5), percentile(values, 0.99)) == (50.0, 99.0)
    assert percentile([], 0.5) == 0.0
