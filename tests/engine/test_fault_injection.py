"""Faults on purpose: when they strike, and what is left of the process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cluster.config import ClusterConfig, EngineConfig, ModelConfig, SimulationConfig, save_config
from cluster.fault_plan import parse_fault
from engine.__main__ import load_runner
from engine.core import EngineCore
from engine.fault_injection import FaultyRunner, InjectedFault, announce_faults
from tests.engine.simulation.conftest import write_model_folder
from tests.support.simulated_engine import VOCAB_SIZE, SimulatedEngine
from tests.support.simulated_runner import SimulatedRunner
from tests.support.waiting import wait_until

PROMPT = [1, 2, 7, 7, 9, 3]


class LoadedSimulatedRunner(SimulatedRunner):
    """The simulated model of the tests, as an engine process loads it."""

    max_model_len = 256
    model_fingerprint = "simulated"


def faulty_engine(*specs: str, **settings: Any) -> SimulatedEngine:
    """An engine whose runner has these faults."""
    engine = SimulatedEngine(**settings)
    runner = LoadedSimulatedRunner(64, engine.config.block_size, VOCAB_SIZE)
    faulty = FaultyRunner(runner, [parse_fault(spec) for spec in specs])
    engine.core = EngineCore(engine.config, 64, 256, faulty, VOCAB_SIZE)
    engine.scheduler = engine.core._scheduler
    return engine


def num_steps_until_fault(engine: SimulatedEngine) -> int:
    """How many steps go well."""
    for count in range(1000):
        try:
            engine.step()
        except InjectedFault:
            return count
    raise AssertionError("no fault strikes")


def test_a_fault_in_prefill_strikes_while_the_prompt_is_computed() -> None:
    engine = faulty_engine("raise:prompt=7-7-9")
    engine.add("innocent", [7, 9, 7, 9, 9], max_tokens=40)
    for _ in range(3):
        engine.step()
    engine.add("poison", PROMPT)
    assert num_steps_until_fault(engine) == 0


def test_a_fault_in_prefill_does_not_strike_a_stream() -> None:
    engine = faulty_engine("raise:prompt=7-7-9:step=3")
    engine.add("a", PROMPT, max_tokens=9)
    engine.run()


def test_output_tokens_are_no_part_of_the_prompt() -> None:
    engine = faulty_engine("raise:prompt=9-3-5")
    engine.add("a", PROMPT, [5, 4])
    engine.run()


@pytest.mark.parametrize("delivered", range(4))
def test_a_fault_at_an_output_position_strikes_there_on_any_engine(delivered: int) -> None:
    engine = faulty_engine("raise:prompt=7-9:output=3", max_num_batched_tokens=4)
    engine.add("a", PROMPT, [5] * delivered, max_tokens=10)
    num_chunks = -(-(len(PROMPT) + delivered) // 4)
    assert num_steps_until_fault(engine) == num_chunks - 1 + 3 - delivered


def test_a_fault_past_its_output_position_does_not_strike() -> None:
    engine = faulty_engine("raise:prompt=7-9:output=3")
    engine.add("a", PROMPT, [5] * 4, max_tokens=10)
    engine.run()


def test_a_fault_strikes_when_the_steps_before_it_have_ended() -> None:
    engine = faulty_engine("raise:prompt=7-9:output=2", max_in_flight=2)
    engine.add("a", PROMPT, max_tokens=10)
    assert num_steps_until_fault(engine) == 2
    assert len(engine.answers["a"].token_ids) == 2


def test_a_fault_waits_for_its_step() -> None:
    engine = faulty_engine("raise:step=4")
    engine.add("a", PROMPT, max_tokens=10)
    assert num_steps_until_fault(engine) == 3


def test_an_allocation_that_fails_is_a_memory_error() -> None:
    engine = faulty_engine("out-of-memory")
    engine.add("a", PROMPT)
    with pytest.raises(MemoryError):
        engine.step()


def test_a_slow_step_is_longer_as_often_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    engine = faulty_engine("slow:seconds=0.5:times=2:step=2")
    engine.add("a", PROMPT, max_tokens=8)
    engine.run()
    assert slept == [0.5, 0.5]
    assert engine.answers["a"].token_ids == engine.expected("a")


def test_the_engine_warns_of_each_fault_it_has(caplog: pytest.LogCaptureFixture) -> None:
    announce_faults([parse_fault("hang:step=5"), parse_fault("abort:prompt=1")])
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert "hang:step=5" in caplog.text
    assert "abort:prompt=1" in caplog.text
    with pytest.raises(InjectedFault, match="fail-start"):
        announce_faults([parse_fault("fail-start")])


# ── in processes ─────────────────────────────────────────────────────────────────────────────


def make_config(directory: Path, *specs: str) -> ClusterConfig:
    folder = directory / "model"
    folder.mkdir()
    write_model_folder(folder)
    (directory / "metrics").mkdir()
    return ClusterConfig(
        model=ModelConfig(model=str(folder)),
        engine=EngineConfig(engine="simulated", inject_fault=list(specs)),
        simulation=SimulationConfig(simulated_step_seconds=0.0),
        run_directory=str(directory),
    )


def test_an_engine_without_faults_of_its_own_is_not_wrapped(tmp_path: Path) -> None:
    config = make_config(tmp_path, "raise:rank=1", "raise:incarnation=7")
    code = (
        "import sys; from pathlib import Path; from cluster.config import load_config\n"
        "from engine.__main__ import load_runner\n"
        f"config = load_config(Path({str(tmp_path / 'cluster.json')!r}))\n"
        "load_runner(config, 0, 1, lambda *_: None)\n"
        "assert 'engine.fault_injection' not in sys.modules"
    )
    save_config(config, tmp_path / "cluster.json")
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert isinstance(load_runner(config, 1, 1, lambda *_: None), FaultyRunner)


STEP = """
import faulthandler, sys
from pathlib import Path
from typing import Any
from cluster.config import load_config
from engine.__main__ import load_runner
from engine.request import Request
from engine.scheduling.output import ScheduledRequest, SchedulerOutput
from cluster.wire.sampling import SamplingParams
faulthandler.enable()
runner = load_runner(load_config(Path(sys.argv[1])), 0, 1, lambda *_: None)
request = Request("r", 0, 0, [7, 9], 2, SamplingParams(), [])
print("ready", flush=True)
runner.submit(SchedulerOutput([ScheduledRequest(request, 0, 2, [0])])).result()
"""


def start_step(directory: Path, spec: str) -> "subprocess.Popen[str]":
    """A process that computes one step with this fault."""
    save_config(make_config(directory, spec), directory / "cluster.json")
    return subprocess.Popen(
        [sys.executable, "-c", STEP, str(directory / "cluster.json")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "number"), [("segfault", signal.SIGSEGV), ("abort", signal.SIGABRT)]
)
def test_a_fault_of_the_process_ends_it_with_its_signal_and_the_stacks(
    tmp_path: Path, kind: str, number: signal.Signals
) -> None:
    with start_step(tmp_path, f"{kind}:prompt=7-9") as process:
        _, errors = process.communicate(timeout=30)
    assert process.returncode == -number
    assert "fault_injection.py" in errors


def test_a_step_that_hangs_never_returns_and_can_be_killed(tmp_path: Path) -> None:
    with start_step(tmp_path, "hang:prompt=7-9") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        status = Path(f"/proc/{process.pid}/status")
        wait_until(lambda: "State:\tS" in status.read_text())
        assert process.poll() is None
        process.kill()
    assert process.returncode == -signal.SIGKILL


def test_an_engine_that_is_not_to_start_ends_with_the_reason(tmp_path: Path) -> None:
    save_config(make_config(tmp_path, "fail-start:rank=1"), tmp_path / "cluster.json")
    result = subprocess.run(
        [sys.executable, "-P", "-m", "engine", f"--config={tmp_path / 'cluster.json'}",
         "--rank=1", "--incarnation=1"],
        check=False, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )  # fmt: skip
    assert result.returncode == 1
    assert "InjectedFault: fail-start:rank=1" in result.stdout + result.stderr
