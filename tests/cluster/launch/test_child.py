"""A child's output is read, its end is seen at once, and its offspring goes with it."""

import asyncio
import errno
import os
import signal
import sys
from pathlib import Path

import pytest

from cluster.launch.child import Child
from cluster.launch.process_log import ProcessLog
from tests.support.processes import children_of, is_running
from tests.support.waiting import wait_until_async


class Spawned:
    """A child of this test, and what is heard of it."""

    def __init__(self, folder: Path, script: str) -> None:
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.log = ProcessLog(folder / "child.log", lambda _: None)
        self.child = Child([sys.executable, "-c", script], {}, (), self.log, self.ended.set_result)

    async def wait_for_line(self, line: str) -> None:
        await wait_until_async(lambda: line in self.log.tail)


async def test_output_and_exit_code_are_seen(tmp_path: Path) -> None:
    script = "import sys; print('out'); print('err', end='', file=sys.stderr); sys.exit(7)"
    spawned = Spawned(tmp_path, script)
    assert await asyncio.wait_for(spawned.ended, 10) == 7
    assert spawned.log.tail == ["out", "err"]
    assert not spawned.child.is_alive


async def test_a_lot_of_output_is_read_to_its_last_line(tmp_path: Path) -> None:
    spawned = Spawned(tmp_path, "for number in range(200_000): print(number)")
    await asyncio.wait_for(spawned.ended, 20)
    assert spawned.log.tail[-1] == "199999"


async def test_termination_is_seen_as_a_signal(tmp_path: Path) -> None:
    spawned = Spawned(tmp_path, "import time; print('up', flush=True); time.sleep(60)")
    await spawned.wait_for_line("up")
    spawned.child.terminate()
    assert await asyncio.wait_for(spawned.ended, 10) == -signal.SIGTERM
    spawned.child.kill()
    spawned.child.terminate()


@pytest.mark.parametrize("ending", ["kill", "own exit"])
async def test_what_a_child_has_spawned_ends_with_it(tmp_path: Path, ending: str) -> None:
    script = (
        "import subprocess, sys\n"
        "grandchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(grandchild.pid, flush=True)\n"
    ) + ("sys.stdin.read() or __import__('time').sleep(60)" if ending == "kill" else "")
    spawned = Spawned(tmp_path, script)
    await wait_until_async(lambda: spawned.log.tail)
    grandchild = int(spawned.log.tail[0])
    if ending == "kill":
        spawned.child.kill()
    await asyncio.wait_for(spawned.ended, 10)

    await wait_until_async(lambda: not is_running(grandchild))


async def test_a_hanging_child_shows_its_stacks_before_it_is_killed(tmp_path: Path) -> None:
    script = (
        "import faulthandler, signal, time\n"
        "faulthandler.register(signal.SIGUSR2)\n"
        "def stuck(): print('up', flush=True); time.sleep(60)\n"
        "stuck()\n"
    )
    spawned = Spawned(tmp_path, script)
    await spawned.wait_for_line("up")
    spawned.child.give_up()
    assert await asyncio.wait_for(spawned.ended, 10) == -signal.SIGKILL
    assert any("in stuck" in line for line in spawned.log.tail)


async def test_a_stopped_child_can_be_killed(tmp_path: Path) -> None:
    spawned = Spawned(tmp_path, "import time; print('up', flush=True); time.sleep(60)")
    await spawned.wait_for_line("up")
    os.kill(spawned.child.pid, signal.SIGSTOP)
    spawned.child.kill()
    assert await asyncio.wait_for(spawned.ended, 10) == -signal.SIGKILL


async def test_a_command_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    log = ProcessLog(tmp_path / "child.log", lambda _: None)
    with pytest.raises(OSError, match="No such file"):
        Child(["/nowhere/at/all"], {}, (), log, lambda _: None)


async def test_a_child_that_cannot_be_watched_is_not_left_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    before = children_of(os.getpid())
    with pytest.raises(OSError, match="Too many"):
        Spawned(tmp_path, "import time; time.sleep(60)")
    assert children_of(os.getpid()) == before


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_many_starts_leave_no_descriptor_and_no_zombie(tmp_path: Path) -> None:
    async def start() -> None:
        log = ProcessLog(tmp_path / "child.log", lambda _: None)
        ended = asyncio.get_running_loop().create_future()
        Child(["/bin/true"], {}, (), log, ended.set_result)
        assert await asyncio.wait_for(ended, 10) == 0

    await start()
    descriptors, children = open_descriptors(), children_of(os.getpid())
    for _ in range(500):
        await start()
    assert open_descriptors() == descriptors
    assert children_of(os.getpid()) == children
