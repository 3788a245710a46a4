"""What every test is held to: nothing of it may be left when it is over."""

import threading
from collections.abc import Iterator

import psutil
import pytest

from cluster.wire.sockets import Context, new_context
from tests.support.waiting import wait_until


def child_processes() -> set[psutil.Process]:
    return set(psutil.Process().children())


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    """Fails a test that leaves a child process or a thread; those of wider fixtures may stay."""
    processes, threads = child_processes(), set(threading.enumerate())
    yield
    wait_until(lambda: child_processes() <= processes, 5)
    wait_until(lambda: set(threading.enumerate()) <= threads, 5)


@pytest.fixture
def context() -> Iterator[Context]:
    """A ZeroMQ context; what a test leaves open in it is closed."""
    context = new_context()
    yield context
    context.destroy(linger=0)
