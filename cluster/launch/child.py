"""One running child process, from its spawn to the moment its end is known."""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

from cluster.launch.process_log import ProcessLog

LAST_WORDS_SECONDS = 1.0
"""What a process that was given up gets to end by itself: it may have said goodbye of its own."""

STACK_DUMP_SECONDS = 0.2
"""What a process that hangs gets to write its stacks before it is killed."""

_READ_BYTES = 64 * 1024


class Child:
    """A child in a process group of its own, its output read, its exit seen at once.

    The group keeps a Ctrl-C on the terminal away from it (the launcher decides what that means) and
    lets `kill` reach what the child itself has spawned. Must be made on the main thread: a child's
    parent-death signal fires when the thread that spawned it ends.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        pass_fds: Sequence[int],
        log: ProcessLog,
        on_exit: Callable[[int], None],
    ) -> None:
        """Spawn it; `on_exit(return code)` is called once, by the event loop. Raises OSError."""
        self._loop = asyncio.get_running_loop()
        self._log = log
        self._on_exit = on_exit
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=pass_fds,
            process_group=0,
        )
        assert self._process.stdout is not None
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except OSError:
            self._process.kill()
            with self._process:  # closes its output, and waits for its end
                raise
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._output, False)
        self._is_reading = True
        self._loop.add_reader(self._output, self._read_output)
        self._loop.add_reader(self._pidfd, self._reap)
        self.is_alive = True

    @property
    def pid(self) -> int:
        """Its process id, which is also its group's."""
        return self._process.pid

    def terminate(self) -> None:
        """Ask it to end."""
        self._signal(signal.SIGTERM)

    def retire(self) -> None:
        """Ask a frontend to end once its connections are served."""
        self._signal(signal.SIGUSR1)

    def kill(self) -> None:
        """End it and everything it has spawned."""
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def give_up(self) -> None:
        """If it does not end by itself now, let it say where it hangs, and end it."""
        self._loop.call_later(LAST_WORDS_SECONDS, self._dump_stacks_and_kill)

    def _dump_stacks_and_kill(self) -> None:
        self._signal(signal.SIGUSR2)
        self._loop.call_later(STACK_DUMP_SECONDS, self.kill)

    def _signal(self, number: signal.Signals) -> None:
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def _read_output(self) -> None:
        """Take what there is, at most some 1 MiB a turn of the loop."""
        for _ in range(16):
            try:
                data = os.read(self._output, _READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                self._stop_reading()
                return
            self._log.feed(data)

    def _stop_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._output)
            assert self._process.stdout is not None
            self._process.stdout.close()

    def _reap(self) -> None:
        """Its end is there: end its group too (its id cannot be reused yet), and tell."""
        self.kill()
        self.is_alive = False
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        return_code = self._process.wait()
        if self._is_reading:
            self._read_output()
            self._stop_reading()
        self._log.finish()
        self._on_exit(return_code)
