"""A person sees how far each process is, and then where the cluster is."""

import os
import pty
from pathlib import Path

import pytest

from cluster.launch.error_output import ErrorOutput
from cluster.launch.managed_process import ManagedProcess
from cluster.launch.plan import ProcessSpec
from cluster.launch.process_log import ProcessLog
from cluster.launch.restart_policy import RestartPolicy
from cluster.launch.startup_display import StartupDisplay
from cluster.wire.messages import Role


def engine(folder: Path, rank: int) -> ManagedProcess:
    spec = ProcessSpec(Role.ENGINE, rank, ())
    log = ProcessLog(folder / f"{spec.file_name}.log", lambda _: None)
    return ManagedProcess(spec, RestartPolicy(3, 60), log)


def test_a_terminal_shows_each_process_with_a_bar_until_all_were_ready(tmp_path: Path) -> None:
    screen, terminal = pty.openpty()
    output = ErrorOutput(terminal)
    display = StartupDisplay(output)
    first, second = engine(tmp_path, 0), engine(tmp_path, 1)
    first.phase, first.progress = "loading", 0.5
    second.phase = "starting"
    display.update([first, second])
    first.was_ready = second.was_ready = True
    display.update([first, second])
    second.was_ready, second.phase = False, "starting"
    display.update([first, second])
    output.close()
    os.close(terminal)
    shown = os.read(screen, 65536).decode().replace("\r\n", "\n")
    os.close(screen)
    assert shown == (
        "  engine 0       loading  ━━━━━━━━━━──────────  50%\n"
        "  engine 1       starting\n"
        "\x1b[2F\x1b[J"
    )


def test_the_url_goes_to_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    read_end, write_end = os.pipe()
    output = ErrorOutput(write_end)
    StartupDisplay(output).announce("http://127.0.0.1:1", "c1")
    output.close()
    os.close(read_end)
    os.close(write_end)
    assert capfd.readouterr().out.startswith("http://127.0.0.1:1 is ready (cluster c1; ")
