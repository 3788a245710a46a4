"""Figures over the rounds, and over those of another server."""

import pytest

from loadtests.comparison.summary import Measure
from loadtests.peers_lab.figures import FIGURES, THROUGHPUT, Figure, measure_of, ratio_of
from tests.loadtests.peers_lab.made_up import turn


def figure(key: str) -> Figure:
    return next(figure for figure in FIGURES if figure.key == key)


def test_a_figure_is_the_median_of_the_rounds_with_its_extremes() -> None:
    turns = [turn("ours", i, speed) for i, speed in enumerate([10.0, 50.0, 20.0])]
    turns.append(turn("other", 0, 1000.0))
    assert measure_of(turns, "ours", figure(THROUGHPUT)) == Measure(20.0, 10.0, 50.0)


def test_each_latency_is_read_from_its_own_distribution() -> None:
    turns = [turn("ours", gap_seconds=0.5)]
    found = {each.key: measure_of(turns, "ours", each) for each in FIGURES}
    for key, value in [("ttft_p50_seconds", 0.1), ("itl_p99_seconds", 0.5), ("tpot_p50_seconds", 0.5)]:  # fmt: skip
        measure = found[key]
        assert measure is not None
        assert measure.median == pytest.approx(value)


def test_what_no_turn_has_is_none() -> None:
    turns = [turn("ours", num_tokens=1)]
    for key in ("itl_p50_seconds", "itl_p99_seconds", "tpot_p50_seconds", "start_seconds", "memory_bytes"):  # fmt: skip
        assert measure_of(turns, "ours", figure(key)) is None


def test_a_ratio_is_of_the_same_round() -> None:
    turns = [turn("ours", 0, 20.0), turn("peer", 0, 10.0), turn("peer", 1, 40.0), turn("ours", 1, 20.0)]  # fmt: skip
    assert ratio_of(turns, "ours", "peer", figure(THROUGHPUT)) == Measure(1.25, 0.5, 2.0)


def test_rounds_that_only_one_has_count_for_no_ratio() -> None:
    turns = [turn("ours", 0, 20.0), turn("ours", 1, 99.0), turn("peer", 0, 10.0)]
    assert ratio_of(turns, "ours", "peer", figure(THROUGHPUT)) == Measure(2.0, 2.0, 2.0)


def test_there_is_no_ratio_to_nothing() -> None:
    turns = [turn("ours", start_seconds=2.0), turn("peer", 0, 0.0)]
    assert ratio_of(turns, "ours", "peer", figure(THROUGHPUT)) is None
    assert ratio_of(turns, "ours", "peer", figure("start_seconds")) is None
