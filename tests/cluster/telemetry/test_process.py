"""A process has a name that people find it by, and ends with whoever started it."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.telemetry.process import LIFELINE_VARIABLE
from tests.support.waiting import wait_until


@contextmanager
def running(
    script: str, *arguments: str, pass_fds: Sequence[int] = (), **variables: str
) -> Iterator["subprocess.Popen[str]"]:
    """A Python process that has run `script` up to its first line of output."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=pass_fds,
        env={**os.environ, **variables},
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


WAIT = "print('up', flush=True); import time; time.sleep(60)"
TITLED = f"""
import os, sys
from cluster.telemetry.process import set_process_title
before = dict(os.environ)
set_process_title(sys.argv[1])
assert os.environ == before
assert open('/proc/self/environ').read().split('\\0')[0].partition('=')[0] in before
{WAIT}
"""


@pytest.mark.skipif(not shutil.which("pkill"), reason="needs ps and pkill")
def test_ps_and_pkill_find_a_process_by_its_title() -> None:
    title = f"quadriga: engine of test {os.getpid()}"
    with running(TITLED, title) as process:
        assert command_line(process.pid).rstrip(b"\0") == title.encode()
        shown = subprocess.run(
            ["ps", "-o", "comm=,args=", "-p", str(process.pid)],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert shown.split() == [*f"engine of test {os.getpid()}"[:15].split(), *title.split()]
        subprocess.run(["pkill", "-9", "-f", title], check=True)
        assert process.wait(10) == -signal.SIGKILL


def test_a_title_longer_than_the_command_line_is_cut() -> None:
    script = (
        "from pathlib import Path\n"
        "from cluster.telemetry.process import set_process_title\n"
        "environment = Path('/proc/self/environ').read_bytes()\n"
        "set_process_title('quadriga: ' + 'long ' * 100_000)\n"
        "assert Path('/proc/self/environ').read_bytes() == environment\n"
    ) + WAIT
    with running(script) as process:
        assert command_line(process.pid).startswith(b"quadriga: long long")


def test_a_process_without_its_own_cmdline_area_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from cluster.telemetry import process

    hidden = "1 (a) b) S " + "0 " * 48
    monkeypatch.setattr(Path, "read_text", lambda _: hidden)
    before = command_line(os.getpid())
    process._overwrite_arguments(b"quadriga: nobody")
    assert command_line(os.getpid()) == before


PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
import time; time.sleep(60)
"""


def test_the_parents_death_signal_alone_ends_a_process() -> None:
    script = "from cluster.telemetry.process import die_with_parent; die_with_parent()\n" + WAIT
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, script], stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
        try:
            wait_until(lambda: has_ended(child))
        finally:
            os.close(child)


def has_ended(pidfd: int) -> bool:
    try:
        signal.pidfd_send_signal(pidfd, 0)
    except ProcessLookupError:
        return True
    return False


def test_the_lifeline_alone_ends_a_process() -> None:
    script = (
        "import ctypes\n"
        "from cluster.telemetry.process import die_with_parent\n"
        "die_with_parent()\n"
        "ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # no parent-death signal after all\n"
    ) + WAIT
    lifeline, lifeline_end = os.pipe()
    with running(script, pass_fds=[lifeline], **{LIFELINE_VARIABLE: str(lifeline)}) as process:
        os.close(lifeline)
        assert process.poll() is None
        os.close(lifeline_end)
        assert process.wait(5) == 1


def test_sigusr2_prints_the_stacks_and_sigint_is_ignored() -> None:
    script = (
        "import time\n"
        "from cluster.telemetry.process import prepare_process\n"
        "prepare_process('quadriga: test')\n"
        "def stuck(): print('up', flush=True); time.sleep(60)\n"
        "stuck()\n"
    )
    with running(script) as process:
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGUSR2)
        assert process.stderr is not None
        assert any("in stuck" in line for line in process.stderr)
        assert process.poll() is None
