"""C30: nothing outlives its launcher, and an end that nobody asked for is told by the exit code.

vllm#55510, vllm#34643, vllm#43060, vllm#48966.
"""

import asyncio
import os
import signal
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cluster.launch.exit_codes import ExitCode
from loadtests.drills.cluster import Cluster
from loadtests.drills.drill import DrillError
from tests.cases.conftest import simulated
from tests.e2e.conftest import Launch
from tests.support.processes import is_running
from tests.support.small_launcher import SmallLauncher
from tests.support.streaming_client import Answer, StreamingClient
from tests.support.waiting import wait_until, wait_until_async

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


async def test_when_the_launcher_is_killed_all_end_and_the_port_is_free(launch: Launch) -> None:
    cluster = launch("--dp=2", "--frontends=2")
    pids = cluster.all_pids()
    assert len(pids) >= 5
    answer = Answer()
    async with StreamingClient(cluster.url) as client:
        body = {"prompt": "Hi", "max_tokens": 3000, "ignore_eos": True}
        streaming = asyncio.create_task(client.complete(answer, **body))
        await wait_until_async(lambda: bool(answer.token_ids), 30)
        address = urlsplit(cluster.url)
        cluster.process.kill()
        await streaming
    assert not answer.is_whole  # cut, and not left hanging
    await asyncio.to_thread(wait_until, lambda: not any(map(is_running, pids)), 5)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.hostname, address.port))


@pytest.mark.drill
def test_engines_that_cannot_start_are_an_exit_code(model_folder: Path) -> None:
    cluster = Cluster(
        *simulated(model_folder), "--dp=1", "--frontends=1", "--inject-fault=fail-start"
    )
    try:
        with pytest.raises(DrillError):
            cluster.wait_until_ready(60)
        assert cluster.process.wait(20) == ExitCode.NOT_STARTED
    finally:
        cluster.close()


def test_engines_that_cannot_be_kept_running_are_an_exit_code() -> None:
    flags = ("--impatient", "--engines=fail-later,fail-later", "--max-restarts=0")
    with SmallLauncher(*flags) as launcher:
        launcher.wait_until_up()
        for name in ("engine 0", "engine 1"):
            os.kill(launcher.child(name).pid, signal.SIGKILL)
        assert launcher.exit_code() == ExitCode.CANNOT_SERVE
        assert launcher.has_left_nothing()
