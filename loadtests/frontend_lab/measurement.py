"""A run of streams against a server, and what it cost the processes that speak HTTP."""

import time
from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec
import psutil

from loadtests.drills.drill import DrillError
from loadtests.frontend_lab.client_processes import ClientProcesses, shared_out
from loadtests.frontend_lab.streaming_client import PATHS, Job, Kind
from loadtests.frontend_lab.streaming_server import StreamingServer

PROMPT = "Tell me about chariots that are drawn by four horses, abreast and in a hurry."
MAX_RUNNING = 512


class LoadOptions(msgspec.Struct, frozen=True):
    """The streams of a run, and the engines that feed them."""

    engines: int = 2
    streams: int = 64
    output_tokens: int = 256
    answers_per_stream: int = 1
    clients: int = 2
    """Processes that the streams are shared out to."""
    step_seconds: float = 0.02
    """How long an engine's step takes. Frontends that keep up tell of each token by itself; those that do
    not, of several at once, and each costs less: such runs cannot be compared with others."""


class Run(msgspec.Struct, frozen=True):
    """What one run brought, and the processor time of all its processes together."""

    tokens: int
    answers: int
    events: int
    num_bytes: int
    seconds: float
    core_seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Over the whole run, its beginning and its end included."""
        return self.tokens / self.seconds

    @property
    def events_per_second(self) -> float:
        """What is written by itself, whether it tells of one token or of several."""
        return self.events / self.seconds

    @property
    def tokens_per_core_second(self) -> float:
        """What a core of frontend can stream."""
        return self.tokens / self.core_seconds


def cluster_flags(frontends: int, options: LoadOptions) -> list[str]:
    """The flags of a cluster whose engines are simulated, and no slower than they must be."""
    return [
        f"--dp={options.engines}",
        f"--frontends={frontends}",
        "--engine=simulated",
        "--kv-cache-memory=4GiB",
        "--max-model-len=4096",
        f"--max-num-seqs={MAX_RUNNING}",
        "--max-num-batched-tokens=8192",
        "--prefill-chunk-while-decoding=8192",
        f"--simulated-step-seconds={options.step_seconds}",
        "--simulated-request-seconds=0",
        "--simulated-kv-token-seconds=0",
        "--simulated-prefill-rate=1000000",
        "--log-level=warning",
    ]


def body_of(kind: Kind, output_tokens: int) -> str:
    """The body of a request whose answer has exactly so many tokens."""
    asked = (
        {"prompt": PROMPT}
        if kind == "completions"
        else {"messages": [{"role": "user", "content": PROMPT}]}
    )
    settings = {"max_tokens": output_tokens, "ignore_eos": True, "stream": True, "temperature": 0}
    return msgspec.json.encode({**asked, **settings}).decode()


def job_for(url: str, kind: Kind, options: LoadOptions) -> Job:
    """All the streams of a run."""
    address = urlsplit(url)
    return Job(
        address.hostname or "127.0.0.1", address.port or 80, PATHS[kind],
        body_of(kind, options.output_tokens), options.streams, options.answers_per_stream,
    )  # fmt: skip


def measure_run(server: StreamingServer, kind: Kind, options: LoadOptions) -> Run:
    """Stream once. Raises DrillError if an answer was not whole, or a process was restarted."""
    processes = server.find_processes()
    with ClientProcesses(
        shared_out(job_for(server.url, kind, options), options.clients)
    ) as clients:
        before, started_at = core_seconds(processes), time.monotonic()
        count = clients.run()
        seconds, after = time.monotonic() - started_at, core_seconds(processes)
    if processes != server.find_processes():
        raise DrillError(f"a process of {server.url} was restarted during the run")
    if before == after:
        raise DrillError(
            f"{count.answers} answers take no time that could be measured: ask for more"
        )
    return Run(
        count.answers * options.output_tokens, count.answers, count.events, count.num_bytes,
        seconds, after - before,
    )  # fmt: skip


def core_seconds(processes: Sequence[psutil.Process]) -> float:
    """Processor time that these processes have used up to now, all their threads, user and kernel."""
    times = [process.cpu_times() for process in processes]
    return float(sum(used.user + used.system for used in times))
