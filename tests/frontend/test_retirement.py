"""One of two frontend processes on one port ends, and no client notices."""

import http.client
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.small_frontend import STREAMED_LINES
from tests.support.waiting import wait_until


class Client:
    """A plain HTTP/1.1 client that keeps its connection.

    Like any other it tries again if a connection that has been idle turns out to be closed, and only
    then.
    """

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        self._has_answered = False
        self.closes_seen = 0

    def get(self, path: str) -> bytes:
        """The whole answer. Raises whatever a fresh connection does."""
        try:
            return self._get(path)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            if not self._has_answered:
                raise
            self.close()
            return self._get(path)

    def _get(self, path: str) -> bytes:
        self._connection.request("GET", path)
        answer = self._connection.getresponse()
        assert answer.status == 200
        body = answer.read()
        self._has_answered = answer.getheader("connection") != "close"
        self.closes_seen += not self._has_answered
        return body

    def connect(self) -> None:
        """Open the connection, and ask for nothing yet."""
        self._connection.connect()

    def close(self) -> None:
        """Drop the connection."""
        self._connection.close()
        self._has_answered = False


class TwoFrontends:
    """Two processes that accept from one socket, which this one keeps open, as `launch` does."""

    def __init__(self, run_directory: Path) -> None:
        self._run_directory = run_directory
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self.processes = [self._start(index) for index in range(2)]
        by_pid = {process.pid: process for process in self.processes}
        seen: set[int] = set()

        def are_both_there() -> bool:
            client = Client(self.port)
            seen.add(int(client.get("/pid")))
            client.close()
            return seen == by_pid.keys()

        wait_until(are_both_there, 20)

    def _start(self, index: int) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-m", "tests.support.small_frontend", str(self._run_directory),
             str(index), str(self._listener.fileno())],
            pass_fds=[self._listener.fileno()],
        )  # fmt: skip

    def client_of(self, pid: int) -> Client:
        """A client whose kept connection is with this process."""
        while True:
            client = Client(self.port)
            if int(client.get("/pid")) == pid:
                return client
            client.close()

    def close(self) -> None:
        """End both."""
        for process in self.processes:
            process.kill()
            process.wait()
        self._listener.close()


@pytest.fixture
def frontends(tmp_path: Path) -> Iterator[TwoFrontends]:
    both = TwoFrontends(tmp_path)
    yield both
    both.close()


def test_a_frontend_that_retires_under_load_fails_no_request(frontends: TwoFrontends) -> None:
    retiring = frontends.processes[0]
    is_over = threading.Event()
    failures: list[BaseException] = []
    answers: list[bytes] = []

    def ask(path: str, keep: bool) -> None:
        client = Client(frontends.port)
        try:
            while not is_over.is_set():
                answers.append(client.get(path))
                if not keep:
                    client.close()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test is to tell
            failures.append(error)
        finally:
            client.close()

    loads = [("/pid", True), ("/pid", False), ("/stream", True), ("/stream", False)] * 3
    threads = [threading.Thread(target=ask, args=load) for load in loads]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(answers) > 100, 20)
    retiring.send_signal(signal.SIGUSR1)
    exit_code = retiring.wait(20)
    is_over.set()
    for thread in threads:
        thread.join(20)
    assert failures == []
    assert exit_code == 0
    streams = [answer.splitlines() for answer in answers if b"\n" in answer]
    assert all([int(n) for n in lines[:-1]] == [*range(STREAMED_LINES)] for lines in streams)
    client = Client(frontends.port)
    assert int(client.get("/pid")) == frontends.processes[1].pid  # the port is still answered
    client.close()


def test_open_connections_get_one_more_answer_and_idle_ones_are_closed(
    frontends: TwoFrontends,
) -> None:
    retiring = frontends.processes[0]
    used = [frontends.client_of(retiring.pid) for _ in range(3)]
    idle = frontends.client_of(retiring.pid)
    retiring.send_signal(signal.SIGUSR1)
    began_at = time.monotonic()
    # New connections go to the other one, at the latest when the signal has come.
    wait_until(lambda: len({_pid_of_new(frontends) for _ in range(8)}) == 1)
    for client in used:
        assert int(client.get("/pid")) == retiring.pid
        assert client.closes_seen == 1
    assert retiring.wait(10) == 0
    assert time.monotonic() - began_at < 5
    assert int(idle.get("/pid")) == frontends.processes[1].pid
    for client in (*used, idle):
        client.close()


def _pid_of_new(frontends: TwoFrontends) -> int:
    client = Client(frontends.port)
    pid = int(client.get("/pid"))
    client.close()
    return pid


def test_connections_whose_first_request_comes_after_the_signal_are_answered(
    frontends: TwoFrontends,
) -> None:
    retiring, other = frontends.processes
    other.send_signal(signal.SIGSTOP)
    fresh = [Client(frontends.port) for _ in range(4)]
    for client in fresh:
        client.connect()
    assert _pid_of_new(frontends) == retiring.pid  # it has accepted those before
    other.send_signal(signal.SIGCONT)
    retiring.send_signal(signal.SIGUSR1)
    wait_until(lambda: {_pid_of_new(frontends) for _ in range(8)} == {other.pid})
    assert {int(client.get("/pid")) for client in fresh} == {retiring.pid}
    for client in fresh:
        client.close()
    assert retiring.wait(10) == 0
