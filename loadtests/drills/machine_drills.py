"""Drills of a machine that gives out: its disk, its file descriptors, its time."""

import asyncio
import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from loadtests.drills.drill import Drill, DrillSkipped
from loadtests.drills.faults import num_deaths, wait
from loadtests.drills.file_limit import raise_file_limit
from loadtests.drills.history import Exchange
from loadtests.drills.stage import Stage

DISK_MEBIBYTES = 24
FILES_OF_A_FRONTEND = 160
SUSPENSION_SECONDS = 6.0
"""Twice the hang timeout."""


async def disk_full(stage: Stage) -> None:
    """The run directory's file system has no room left."""
    directory = Path(tempfile.mkdtemp(prefix="quadriga-drill-"))
    mount_small_disk(directory)
    try:
        await stage.launch(directory=directory)
        async with stage.load(concurrency=12) as load:
            await load.until_streaming()
            stage.fault("the disk is full")
            await asyncio.to_thread(fill, directory / "filler")
            await load.until_tokens(stage.scaled(5000, 1500))
            await asyncio.to_thread(stage.cluster.kill, "engine 0")
            await load.until_tokens(stage.scaled(5000, 1500))
            (directory / "filler").unlink()
            stage.recovered("there is room again")
            await asyncio.to_thread(stage.cluster.wait_until_ready)
            await load.until_tokens(300)
        await stage.settle()
    finally:
        await stage.close()
        await asyncio.to_thread(unmount, directory)


def unmount(directory: Path) -> None:
    """Remove the folder and its file system."""
    subprocess.run(["umount", "--lazy", str(directory)], check=False)
    shutil.rmtree(directory, ignore_errors=True)


def mount_small_disk(directory: Path) -> None:
    """A file system of its own for the folder. Raises DrillSkipped where that is not allowed."""
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK_MEBIBYTES}m,mode=700", "tmpfs", str(directory)],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", "") or str(error)
        directory.rmdir()
        raise DrillSkipped(f"a tmpfs cannot be mounted here: {detail.strip()}") from error


def fill(path: Path) -> None:
    """Write until nothing more can be written."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        for size in (2**20, 2**12, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass


async def fd_limit(stage: Stage) -> None:
    """A frontend may open few files, and gets more connections than that."""
    raise_file_limit(4 * FILES_OF_A_FRONTEND + 200)
    cluster = await stage.launch(frontends=1)
    frontend = await asyncio.to_thread(cluster.find, "frontend 0")
    parts = urlsplit(cluster.url)
    address = (parts.hostname or "", parts.port or 80)
    async with stage.load(concurrency=12) as load:
        await load.until_streaming()
        _, hard = resource.prlimit(frontend.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(frontend.pid, resource.RLIMIT_NOFILE, (FILES_OF_A_FRONTEND, hard))
        stage.fault(
            f"{3 * FILES_OF_A_FRONTEND} connections to a frontend with {FILES_OF_A_FRONTEND} files"
        )
        with contextlib.ExitStack() as connections:
            for _ in range(3 * FILES_OF_A_FRONTEND):
                connections.enter_context(await asyncio.to_thread(_connect, address))
            streaming = [exchange for exchange in load.in_flight if exchange.arrivals]
            await until_ended(streaming)
            whole = sum(exchange.is_whole for exchange in streaming)
            stage.check("those who were connected are served", whole == len(streaming),
                        f"{whole} of {len(streaming)}")  # fmt: skip
        stage.recovered("the connections are gone")
        await load.until_tokens(500, seconds=30)
    now = await asyncio.to_thread(cluster.find, "frontend 0")
    stage.check("the frontend lives", now.incarnation == frontend.incarnation)
    await wait(1)
    await stage.settle()


def _connect(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=5)


async def until_ended(exchanges: list[Exchange]) -> None:
    """Wait for the ends of these requests, for half a minute at most."""
    for _ in range(300):
        if all(exchange.ended_at is not None for exchange in exchanges):
            return
        await asyncio.sleep(0.1)


async def clock_jump(stage: Stage) -> None:
    """The whole machine is suspended: every process stops, and all go on at once."""
    cluster = await stage.launch()
    async with stage.load(concurrency=12) as load:
        for _ in range(stage.scaled(3)):
            await load.until_streaming()
            status = await asyncio.to_thread(cluster.status)
            pids = [cluster.process.pid, *(process.pid for process in status.processes)]
            stage.fault("the machine is suspended")
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            await wait(SUSPENSION_SECONDS)
            for pid in reversed(pids):
                os.kill(pid, signal.SIGCONT)
            stage.recovered("and runs again")
            await load.until_tokens(500)
    stage.check("nobody was declared dead", await num_deaths(stage) == 0)
    now = await asyncio.to_thread(cluster.status)
    stage.check("no process was started anew", all(p.incarnation == 1 for p in now.processes))
    stage.check("no request had to move", not stage.history.moved())
    await stage.settle(exact_metrics=False)


DRILLS = (
    Drill(
        "disk-full",
        "The disk of the run directory is full: serving goes on, also through the death of an engine.",
        disk_full,
    ),
    Drill(
        "fd-limit",
        "A frontend runs out of file descriptors: those who are connected are served, the others "
        "wait, and it recovers.",
        fd_limit,
    ),
    Drill(
        "clock-jump",
        "All processes stop for longer than the hang timeout, as on a suspended machine: nobody is "
        "declared dead, nothing is lost.",
        clock_jump,
    ),
)
