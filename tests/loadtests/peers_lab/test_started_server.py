"""A server that is started for its turn, and all of it that is ended."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from loadtests.drills.processes import is_running
from loadtests.peers_lab import started_server
from loadtests.peers_lab.peer import Peer, PeerError
from loadtests.peers_lab.started_server import StartedServer
from tests.loadtests.peers_lab.tiny_peer import tiny_peer
from tests.support.waiting import wait_until


@contextmanager
def started(*flags: str) -> Iterator[StartedServer]:
    server = StartedServer(tiny_peer(*flags))
    try:
        yield server
    finally:
        server.end()


def child_of(server: StartedServer) -> int:
    found = wait_until(lambda: re.search(r"child (\d+)\.", server.last_words()))
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("where", ["in-group", "apart"])
def test_whatever_does_not_end_is_killed_with_its_children(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(started_server, "STOP_SECONDS", 0.2)
    with started("--deaf", f"--child={where}") as server:
        child = child_of(server)
        assert is_running(child)
    assert server._process.returncode == -9
    assert not is_running(child)


def test_sigterm_is_enough_for_a_server_that_hears_it() -> None:
    with started("--child=in-group") as server:
        child = child_of(server)
    assert server._process.returncode == -15
    assert not is_running(child)


def test_the_children_of_a_server_that_crashed_are_ended_too() -> None:
    with started("--child=in-group") as server:
        child = child_of(server)
        server._process.kill()
        server._process.wait()
        with pytest.raises(PeerError, match="tiny has ended with code -9"):
            server.check_running()
        assert is_running(child)
    wait_until(lambda: not is_running(child))


def test_memory_is_that_of_all_processes() -> None:
    with started("--child=apart") as server:
        child_of(server)

        def held() -> list[int]:
            return [started_server._memory_bytes(process) for process in server._processes()]

        wait_until(lambda: len(held()) == 2 and min(held()) > 2**20)
        assert server.memory_bytes() > max(held())


def test_a_command_that_is_not_there_is_an_error_in_words() -> None:
    with pytest.raises(PeerError, match="tiny: no-such-program: No such file"):
        StartedServer(Peer("tiny", "http://127.0.0.1:1", ("no-such-program",)))
