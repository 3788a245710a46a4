"""The command line of the simulator."""

import argparse
from pathlib import Path

import msgspec
import pytest

from loadtests.simulation.cli import add_arguments, main, scenarios_of
from loadtests.simulation.grid import ALL_POLICIES, GRIDS
from loadtests.simulation.outcome import Outcome
from loadtests.simulation.scenario import Fault
from loadtests.simulation.workloads import WORKLOADS


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(arguments)


def test_flags_become_scenarios() -> None:
    scenarios = scenarios_of(
        parse(
            "--policy", "vllm", "oracle", "--workload", "kv-bound", "--engines", "3", "--load", "0.9",
            "--frontends", "8:2", "--age-ms", "20", "--seconds", "5", "--seeds", "2",
            "--fault", "slow engine",
        )
    )  # fmt: skip
    assert [(s.policy, s.seed) for s in scenarios] == [
        ("vllm", 0), ("vllm", 1), ("oracle", 0), ("oracle", 1),
    ]  # fmt: skip
    first = scenarios[0]
    assert (first.workload, first.engines, first.load, first.fault) == (
        "kv-bound", 3, 0.9, Fault.SLOW,
    )  # fmt: skip
    assert (first.frontend_shares, first.age_seconds, first.seconds) == ((8.0, 2.0), 0.02, 5.0)


def test_a_run_prints_a_table_and_writes_its_outcomes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "outcomes.json"
    arguments = parse("--policy", "random", "--engines", "2", "--seconds", "2", "--json", str(path))
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "uniform, equal: load 87%, 2 engines, 4 frontends" in printed
    assert "\nrandom" in printed
    (outcome,) = msgspec.json.decode(path.read_bytes(), type=dict[str, list[Outcome]])["outcomes"]
    assert outcome.policy == "random"


def test_a_cost_model_may_name_some_of_its_fields(tmp_path: Path) -> None:
    path = tmp_path / "cost.json"
    path.write_text('{"prefill_tokens_per_second": 5000}')
    cost = parse("--cost-model", str(path)).cost_model
    assert (cost.prefill_tokens_per_second, cost.max_num_seqs) == (5000, 128)


@pytest.mark.parametrize(
    "content", ["{", '{"speed": 1}', '{"max_num_seqs": 0}', '{"prefill_tokens_per_second": -1}']
)
def test_a_cost_model_that_makes_no_sense_is_refused(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cost.json"
    path.write_text(content)
    with pytest.raises(SystemExit):
        parse("--cost-model", str(path))
    assert str(path) in capsys.readouterr().err


def test_a_wrong_trace_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("a,b\n")
    assert main(parse("--trace", str(path), "--trace-format", "azure")) == 2
    assert f"{path}:1:" in capsys.readouterr().err


def test_the_judged_grid_has_every_policy_on_every_workload_with_five_seeds() -> None:
    scenarios = GRIDS["judge"].scenarios()
    judged = {(s.policy, s.workload, s.seed) for s in scenarios if s.age_seconds == 0.1}
    assert judged == {
        (policy, workload, seed)
        for policy in ALL_POLICIES for workload in WORKLOADS for seed in range(5)
    }  # fmt: skip
    assert {(s.engines, len(s.frontend_shares)) for s in scenarios} == {(8, 4)}


@pytest.mark.parametrize("grid", GRIDS)
def test_no_grid_runs_a_scenario_twice(grid: str) -> None:
    scenarios = GRIDS[grid].scenarios()
    assert len(set(map(repr, scenarios))) == len(scenarios)
