"""The benchmark of decisions: what it measures, and when it fails."""

import argparse
import json
from pathlib import Path

import pytest

from frontend.balancer import POLICIES
from frontend.engine_book import hits_by_rank
from loadtests import balancer_benchmark
from loadtests.balancer_benchmark import (
    BLOCK_SIZE,
    Cost,
    add_arguments,
    cost_line,
    main,
    make_books,
    prompt_hashes,
)


def run_benchmark(*flags: str) -> int:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return main(parser.parse_args([*flags, "--repeats", "1"]))


def test_hits_are_what_each_index_says_by_itself() -> None:
    books, prompt = make_books(8), prompt_hashes()
    alone = {book.rank: book.prefix.hit_tokens(prompt) for book in books}
    assert hits_by_rank(books, prompt) == alone
    assert len(set(alone.values())) > 4
    assert all(0 <= hit <= len(prompt) * BLOCK_SIZE for hit in alone.values())


def test_a_price_at_its_limit_is_too_much() -> None:
    assert Cost("a", 49.9, "µs", 50.0).is_kept
    assert not Cost("a", 50.0, "µs", 50.0).is_kept
    assert Cost("a", 1e9, "µs").is_kept
    assert "EXCEEDED" in cost_line(Cost("a", 50.0, "µs", 50.0))
    assert "EXCEEDED" not in cost_line(Cost("a", 1.0, "µs", 50.0))


@pytest.mark.parametrize(("limit_microseconds", "exit_code"), [(1e9, 0), (0.0, 1)])
def test_the_exit_code_says_whether_the_limits_hold(
    limit_microseconds: float,
    exit_code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    limits = {3: limit_microseconds}
    monkeypatch.setattr(balancer_benchmark, "DECISION_LIMIT_MICROSECONDS", limits)
    monkeypatch.setattr(balancer_benchmark, "UPKEEP_LIMIT_SHARE", 1e9)
    path = tmp_path / "costs.json"
    assert run_benchmark("--json", str(path)) == exit_code
    costs = json.loads(path.read_text())
    labels = " ".join(cost["label"] for cost in costs)
    assert all(f"{policy}, 3 engines" in labels for policy in POLICIES)
    assert all(cost["value"] > 0 for cost in costs)
    assert len(capsys.readouterr().out.splitlines()) == len(costs)
