"""The process with transformers' own model, from the side that asks it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec

from cluster.errors import StartupError
from loadtests.engine_lab.options import EngineTarget
from loadtests.engine_lab.reference_task import Task

_MODULE = "loadtests.engine_lab.reference"
_HOW_OURS_WAIT = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


class ReferenceProcess:
    """Measures one task after another; idle meanwhile."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def measure(self, task: Task) -> list[float]:
        """Seconds a step of each repeat. Raises StartupError if the process has ended."""
        assert self._process.stdin is not None, "it was started with a pipe"
        with suppress(BrokenPipeError):  # that it has ended is said below
            self._process.stdin.write(msgspec.json.encode(task) + b"\n")
        return self.read_answer()

    def read_answer(self) -> list[float]:
        """The next answer, waited for. Raises StartupError if there will be none."""
        assert self._process.stdout is not None, "it was started with a pipe"
        line = self._process.stdout.readline()
        if not line:
            raise StartupError(
                f"transformers' process ended (exit code {self._process.wait()}); "
                "the lines above say why"
            )
        return msgspec.json.decode(line, type=list[float])


@contextmanager
def reference_process(target: EngineTarget) -> Iterator[ReferenceProcess]:
    """Start it and wait until its model is loaded; it is gone afterwards.

    float32 on a CPU, where other arithmetic is slower, whatever the weights are; as the checkpoint
    is on a GPU.
    """
    dtype = "float32" if target.device == "cpu" else "auto"
    command = [
        sys.executable, "-P", "-m", _MODULE, f"--model={target.model}",
        f"--device={target.device}", f"--threads={target.threads}", f"--dtype={dtype}",
    ]  # fmt: skip
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=_environment()
    ) as process:
        try:
            reference = ReferenceProcess(process)
            reference.read_answer()
            yield reference
        finally:
            process.kill()


def _environment() -> dict[str, str]:
    # Its threads wait as torch lets them by default, by spinning: nobody else needs the cores.
    environment = {name: text for name, text in os.environ.items() if name not in _HOW_OURS_WAIT}
    return environment | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
