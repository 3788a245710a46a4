"""What is written: a page, pictures and tables."""

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from loadtests.simulation.outcome import Outcome
from loadtests.simulation.report import write_html, write_markdown, write_plots
from loadtests.simulation.report.markdown import BEGIN, END
from loadtests.simulation.report.palette import OURS, PEER
from tests.loadtests.simulation_report.made_up import seeds_of, verdict

VERDICTS = [verdict("even <load>", True), verdict("prefixes", False)]


def outcomes() -> list[Outcome]:
    """Two policies, two workloads, two loads of one of them."""
    return [
        run
        for policy, factor in ((OURS, 1.0), (PEER, 2.5))
        for run in (
            *seeds_of(policy, 0.1 * factor, 0.11 * factor, 0.12 * factor),
            *seeds_of(policy, 0.3 * factor, load=0.95),
            *seeds_of(policy, 0.04 * factor, workload="prefix", hit_rate=0.7 / factor),
        )
    ]


class Tags(HTMLParser):
    """Checks that what is opened is closed, and collects the text."""

    VOID = {"meta", "path", "use", "br", "rect", "stop"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_html(outcomes(), VERDICTS, path)
    return path.read_text()


def test_a_page_is_well_formed_and_says_who_passed(page: str) -> None:
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert "1 of 2 pass lines hold" in tags.text
    assert "even <load>" in tags.text
    assert tags.text.index("✓") < tags.text.index("✗")
    assert page.count("<svg") == page.count("<h2>") - 2  # the lines and the tables have none


def test_a_page_needs_nothing_but_itself(page: str) -> None:
    loaded = re.findall(r"(?:src|href)=[\"'](?!#)([^\"']*)|url\((?!#)([^)]*)\)|@import", page)
    assert not loaded


def test_no_two_pictures_share_an_identifier_that_is_referred_to(page: str) -> None:
    pictures = page.split("<svg")[1:]
    referred = [set(re.findall(r"(?:href=\"#|url\(#)([\w-]+)", svg)) for svg in pictures]
    for index, one in enumerate(referred):
        assert not any(one & other for other in referred[index + 1 :])


def test_colours_follow_the_reader_to_dark_paper(page: str) -> None:
    dark = page[page.index("prefers-color-scheme: dark") :]
    for name in re.findall(r"var\((--[\w-]+)\)", page):
        assert f"{name}:" in page
        assert f"{name}:" in dark
    first_picture = page.split("<svg")[1].split("</svg>")[0]
    assert "var(--ink-marginal-cost)" in first_picture
    assert not re.search(r"#[0-9a-f]{6}", first_picture), "a colour that stays as it is"


def test_pictures_are_written_twice_and_only_where_there_is_something_to_show(
    tmp_path: Path,
) -> None:
    write_plots(outcomes(), tmp_path / "new" / "folder")
    written = {path.name for path in (tmp_path / "new" / "folder").iterdir()}
    names = {"ttft-by-policy", "goodput", "imbalance", "hit-rate", "ttft-over-load"}
    assert written == {f"{name}.{kind}" for name in names for kind in ("png", "svg")}
    for path in (tmp_path / "new" / "folder").glob("*.svg"):
        ElementTree.parse(path)


def test_a_table_replaces_what_lies_between_the_markers(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"# Before\n\n{BEGIN}\nyesterday\n{END}\n\nAfter\n")
    for _ in range(2):
        write_markdown(outcomes(), VERDICTS, path)
    text = path.read_text()
    assert text.startswith(f"# Before\n\n{BEGIN}\n")
    assert text.endswith(f"{END}\n\nAfter\n")
    assert "yesterday" not in text
    assert text.count("| `marginal-cost` | 110 (÷ 2.5) | 40 (÷ 2.5) |") == 1
    assert "**no**" in text


def test_a_table_without_a_page_is_the_page(tmp_path: Path) -> None:
    write_markdown(outcomes(), [], tmp_path / "table.md")
    text = (tmp_path / "table.md").read_text()
    assert text.startswith("Mean time to first token")
    assert "pass line" not in text
