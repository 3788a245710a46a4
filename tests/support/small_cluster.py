"""A coordinator and engines as real processes, and a client of theirs in the test's own loop."""

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.config import ClusterConfig, EngineConfig, FrontendConfig, LaunchConfig, save_config
from cluster.telemetry.flight_recorder import flight_record_path, read_flight_record
from cluster.wire.block_hash import hash_blocks
from cluster.wire.codec import Encoder
from cluster.wire.endpoints import Endpoints
from cluster.wire.ids import new_request_id
from cluster.wire.messages import Message, ProcessExited, ProcessStarted, Role
from cluster.wire.sampling import SamplingParams
from cluster.wire.sockets import connect_reports, new_context, try_send
from frontend.balancer import Balancer
from frontend.client import DPLBClient
from frontend.metrics import FrontendMetrics
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream
from tests.support.engine_process import MAX_MODEL_LEN, VOCAB_SIZE
from tests.support.simulated_runner import reference_output
from tests.support.waiting import POLL_SECONDS, wait_until_async


@dataclass
class Engine:
    """One engine process."""

    process: "subprocess.Popen[bytes]"
    rank: int
    incarnation: int


class SmallCluster:
    """Everything but HTTP and `launch`; the test says what the launcher would say."""

    def __init__(
        self,
        run_directory: Path,
        num_engines: int,
        step_seconds: float = 0.005,
        faults: Sequence[str] = (),
        async_scheduling: bool = False,
    ) -> None:
        self.config = ClusterConfig(
            engine=EngineConfig(
                data_parallel_size=num_engines,
                block_size=8,
                max_num_seqs=8,
                inject_fault=list(faults),
                async_scheduling=async_scheduling,
            ),
            frontend=FrontendConfig(queue_timeout=20.0),
            launch=LaunchConfig(log_level="debug"),
            run_directory=str(run_directory),
        )
        (run_directory / "metrics").mkdir(exist_ok=True)
        self._config_path = run_directory / "cluster.json"
        save_config(self.config, self._config_path)
        self._step_seconds = step_seconds
        self._context = new_context()
        self._encoder = Encoder()
        self._reports = connect_reports(self._context, Endpoints(run_directory).reports)
        self.engines: dict[int, Engine] = {}
        self.clients: list[DPLBClient] = []
        self._coordinator_incarnation = 0
        self.start_coordinator()
        for rank in range(num_engines):
            self.start_engine(rank)

    # ── processes ──

    def start_coordinator(self) -> None:
        """Start a coordinator; after `kill -9`, a new one."""
        self._coordinator_incarnation += 1
        self.coordinator = self._spawn("coordinator", self._coordinator_incarnation)

    def start_engine(self, rank: int, incarnation: int = 1) -> None:
        """Start an incarnation of an engine."""
        if rank in self.engines:
            self.engines[rank].process.wait(10)
        process = self._spawn(
            "tests.support.engine_process", incarnation, f"--rank={rank}",
            f"--step-seconds={self._step_seconds}",
        )  # fmt: skip
        self.engines[rank] = Engine(process, rank, incarnation)
        self.tell(ProcessStarted(Role.ENGINE, rank, incarnation, process.pid))

    def _spawn(self, module: str, incarnation: int, *more: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-m", module, f"--config={self._config_path}",
             f"--incarnation={incarnation}", *more]
        )  # fmt: skip

    def kill_engine(self, rank: int, tell: bool = True) -> None:
        """SIGKILL, and what the launcher says when it sees the exit."""
        engine = self.engines[rank]
        engine.process.kill()
        engine.process.wait()
        if tell:
            exited = ProcessExited(Role.ENGINE, rank, engine.incarnation, "SIGKILL", fault=False)
            self.tell(exited)

    def obituary(self, rank: int) -> ProcessExited:
        """What the launcher says of an engine that has ended by its own fault; waits for that."""
        engine = self.engines[rank]
        cause = signal.Signals(-engine.process.wait(10)).name
        path = flight_record_path(self.config.run_directory, rank, engine.incarnation)
        flight = read_flight_record(path)
        return ProcessExited(
            Role.ENGINE, rank, engine.incarnation, cause, fault=True, flight=flight
        )

    async def restart_the_dead(self) -> None:
        """Tell of every engine that ends by its own fault, and start it again, until cancelled."""
        while True:
            for rank, engine in list(self.engines.items()):
                if engine.process.poll() is not None:
                    self.tell(self.obituary(rank))
                    self.start_engine(rank, engine.incarnation + 1)
            await asyncio.sleep(POLL_SECONDS)

    def signal_engine(self, rank: int, number: signal.Signals) -> None:
        """SIGSTOP, SIGCONT, SIGTERM."""
        self.engines[rank].process.send_signal(number)

    def tell(self, message: Message) -> bool:
        """Speak to the coordinator as the launcher does."""
        return try_send(self._reports, self._encoder.encode(message))

    # ── clients ──

    async def start_client(self, index: int = 0, incarnation: int = 1) -> DPLBClient:
        """A frontend's client; returns once all engines have said hello to it."""
        balancer = Balancer(self.config.frontend.routing, random.Random(0))
        client = DPLBClient(
            self.config, index, incarnation, self._context, balancer, FrontendMetrics("m", index)
        )
        await client.start()
        self.clients.append(client)
        await wait_until_async(lambda: client.num_ready_engines == len(self.engines), 20)
        return client

    async def close(self) -> None:
        """Stop everything."""
        for client in self.clients:
            await client.stop()
        processes = [self.coordinator, *(engine.process for engine in self.engines.values())]
        for process in processes:
            process.kill()
            process.wait()
        self._reports.close()
        self._context.destroy(linger=0)


def new_request(
    prompt: Sequence[int], sampling: SamplingParams, now: float, pinned_rank: int | None = None
) -> GenerationRequest:
    """A request as the input processor would make it."""
    return GenerationRequest(
        new_request_id("test"), list(prompt), hash_blocks(prompt, 8), sampling, now,
        pinned_rank=pinned_rank,
    )  # fmt: skip


def expected_output(request: GenerationRequest) -> list[int]:
    """What any engine must answer, however often the request moves."""
    return reference_output(request.prompt_token_ids, request.sampling, MAX_MODEL_LEN, VOCAB_SIZE)


async def read_all(stream: RequestStream) -> list[int]:
    """All tokens of a stream, as its consumer gets them. Raises AssertionError on an error."""
    token_ids: list[int] = []
    while True:
        batch = await stream.next()
        assert batch is not None
        token_ids += batch.token_ids
        if batch.finish_reason is not None:
            assert not batch.error, batch.error
            return token_ids
