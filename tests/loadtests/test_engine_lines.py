"""What the engine benchmark makes of its measurements: ratios, shares, verdicts and the table."""

from typing import Any

import msgspec
import pytest

from loadtests.engine_lab.cost import MachineLimits, ModelCost
from loadtests.engine_lab.lines import DECODE_RATIOS, LIMIT_SHARES, at_least, below, lines_of
from loadtests.engine_lab.overhead import Overhead
from loadtests.engine_lab.processor_watch import ProcessorSeconds
from loadtests.engine_lab.report import EngineReport
from loadtests.engine_lab.row import Row
from loadtests.engine_lab.table import line_text, report_text, row_text
from loadtests.engine_lab.turns import in_turns

LIMITS = MachineLimits(read_bytes_per_second=1e9, flops_per_second=1e9)


def decode(batch: int = 8, context: int = 256, **changes: Any) -> Row:
    row = Row("decode", batch, context, [0.2, 0.1, 9.0], [0.8, 0.6, 0.7], LIMITS, 0.05)
    return msgspec.structs.replace(row, **changes)


def prefill(tokens: int = 512, **changes: Any) -> Row:
    return decode(batch=1, context=tokens, **({"kind": "prefill"} | changes))


def labels(*rows: Row) -> list[str]:
    return [line.label for line in lines_of(rows, [], "cpu")]


def report(
    *rows: Row, overheads: tuple[Overhead, ...] = (), others_share: float = 0.0
) -> EngineReport:
    return EngineReport(
        model="tiny", device="cpu", threads=2, quantization="none",
        limits=MachineLimits(30e9, 130e9), cost=ModelCost(90_000_000, 10_000_000, 2, 23_000, 69),
        rows=list(rows), overheads=list(overheads), lines=lines_of(rows, overheads, "cpu"),
        others_share=others_share,
    )  # fmt: skip


def test_a_row_speaks_of_the_median_of_its_repeats() -> None:
    row = decode()
    assert row.tokens_per_second == 8 / 0.2
    assert row.reference_tokens_per_second == 8 / 0.7
    assert row.ratio == pytest.approx(3.5)
    assert row.share == pytest.approx(0.25)


def test_a_prompt_is_as_many_tokens_as_it_is_long() -> None:
    assert prefill(tokens=512).tokens_per_second == 512 / 0.2


def test_a_row_without_transformers_has_no_ratio() -> None:
    row = decode(reference_step_seconds=[])
    assert row.reference_tokens_per_second is None
    assert row.ratio is None
    assert "–" in row_text(row)


@pytest.mark.parametrize("batch", [1, 8, 32])
def test_every_batch_of_the_lines_is_held_to_its_ratio(batch: int) -> None:
    seconds = 0.7 / DECODE_RATIOS[batch]
    fast = decode(batch, step_seconds=[seconds * 0.999], floor_seconds=seconds)
    slow = decode(batch, step_seconds=[seconds * 1.001], floor_seconds=seconds)
    assert all(line.is_kept for line in lines_of([fast], [], "cpu"))
    ratio, *shares = lines_of([slow], [], "cpu")
    assert not ratio.is_kept
    assert all(line.is_kept for line in shares)


@pytest.mark.parametrize("batch", [1, 32])
def test_the_smallest_and_the_largest_batch_are_held_to_a_share_of_the_limit(batch: int) -> None:
    line = LIMIT_SHARES[batch]
    for share, is_kept in ((line + 0.001, True), (line - 0.001, False)):
        row = decode(batch, step_seconds=[1.0], reference_step_seconds=[], floor_seconds=share)
        (verdict,) = lines_of([row], [], "cpu")
        assert verdict.is_kept == is_kept
        assert verdict.value == pytest.approx(100 * share)


@pytest.mark.parametrize(("own_seconds", "is_kept"), [(0.6, True), (0.62, False)])
def test_a_prompt_is_held_to_its_ratio(own_seconds: float, is_kept: bool) -> None:
    row = prefill(step_seconds=[own_seconds])
    (verdict,) = lines_of([row], [], "cpu")
    assert verdict.is_kept == is_kept


def test_sizes_that_no_line_was_drawn_for_are_not_judged() -> None:
    assert labels(decode(4), decode(8, context=1024), prefill(tokens=100)) == []
    assert len(labels(decode(8), prefill())) == 2


def test_without_transformers_only_the_limits_are_left_to_judge_by() -> None:
    rows = [decode(batch, reference_step_seconds=[]) for batch in (1, 8, 32)]
    assert len(labels(*rows, prefill(reference_step_seconds=[]))) == 2


@pytest.mark.parametrize(
    ("runner", "outside_seconds", "device", "verdicts"),
    [
        ("model", 0.0049, "cpu", [True]),
        ("model", 0.0051, "cpu", [False]),
        ("model", 0.0051, "cuda", []),
        ("simulated", 0.0009, "cpu", [True]),
        ("simulated", 0.0011, "cuda", [False]),
    ],
)
def test_what_is_outside_of_the_forward_pass_has_a_line(
    runner: str, outside_seconds: float, device: str, verdicts: list[bool]
) -> None:
    overhead = Overhead(runner, 16, step_seconds=0.1, outside_seconds=outside_seconds)
    assert [line.is_kept for line in lines_of([], [overhead], device)] == verdicts


def test_a_value_at_the_line_reaches_it_and_is_not_below_it() -> None:
    assert at_least("a", 2.5, 2.5, "×").is_kept
    assert not below("a", 2.5, 2.5, "ms").is_kept
    assert line_text(at_least("a", 2.5, 2.5, "×")).startswith("kept")
    assert line_text(below("a", 2.5, 2.5, "ms")).startswith("MISSED")


def test_the_table_has_every_row_and_every_verdict() -> None:
    overhead = Overhead("model", 16, step_seconds=0.1, outside_seconds=0.2)
    text = report_text(report(decode(8), decode(32), prefill(), overheads=(overhead,)))
    lines = text.splitlines()
    assert "30.0 GB/s, 130 GFLOP/s; a step reads 200 MB of weights, and 23.0 kB" in lines[1]
    (row,) = [line for line in lines if line.startswith("decode, batch 8, context 256  ")]
    assert row.split()[5:] == ["200.0", "40.0", "11.4", "3.50×", "160.0", "25%"]
    assert sum(line.startswith("kept") for line in lines) == 3
    assert sum(line.startswith("MISSED") for line in lines) == 2


def test_one_missed_line_is_a_missed_run() -> None:
    good = decode(8)
    assert report(good).is_kept
    assert not report(good, decode(1, floor_seconds=0.01)).is_kept


@pytest.mark.parametrize(
    ("repeats", "expected"),
    [
        (5, ["ours 3", "theirs 5", "ours 2"]),
        (2, ["ours 1", "theirs 2", "ours 1"]),
        (1, ["ours 1", "theirs 1", "ours 0"]),
    ],
)
def test_both_sides_are_measured_in_turns(repeats: int, expected: list[str]) -> None:
    order: list[str] = []

    def side(name: str, value: float, count: int) -> list[float]:
        order.append(f"{name} {count}")
        return [value] * count

    ours, theirs = in_turns(
        lambda count: side("ours", 1.0, count), lambda count: side("theirs", 2.0, count), repeats
    )
    assert order == expected
    assert (ours, theirs) == ([1.0] * repeats, [2.0] * repeats)


def test_one_side_alone_gets_all_its_repeats() -> None:
    assert in_turns(lambda count: [1.0] * count, None, 5) == ([1.0] * 5, [])


@pytest.mark.parametrize(("others_share", "is_said"), [(0.02, False), (0.3, True)])
def test_a_machine_that_others_used_is_said_to_be_one(others_share: float, is_said: bool) -> None:
    text = report_text(report(decode(), others_share=others_share))
    assert f"others took {others_share:.0%} of the processors" in text
    assert ("MEAN LITTLE" in text) == is_said


def test_what_others_took_is_what_is_busy_and_not_ours() -> None:
    began = ProcessorSeconds(total=100.0, busy=40.0, own=5.0)
    assert began.others_share_until(ProcessorSeconds(120.0, 55.0, 15.0)) == 0.25
    assert began.others_share_until(ProcessorSeconds(120.0, 50.0, 15.1)) == 0.0
    assert began.others_share_until(began) == 0.0


def test_work_of_our_own_is_not_that_of_others() -> None:
    began = ProcessorSeconds.now()
    while ProcessorSeconds.now().own < began.own + 0.2:
        pass
    now = ProcessorSeconds.now()
    assert now.busy - began.busy >= 0.1
    assert now.total - began.total >= now.busy - began.busy
