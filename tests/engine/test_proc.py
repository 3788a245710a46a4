"""A whole engine over real sockets, among frontends and a coordinator that a test plays itself."""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from cluster.config import ClusterConfig, EngineConfig
from cluster.telemetry.flight_recorder import flight_record_path, read_flight_record
from cluster.wire.codec import Decoder, Encoder
from cluster.wire.endpoints import VIEW_TOPIC, Endpoints
from cluster.wire.messages import (
    AddRequest,
    BlockEvents,
    ClusterView,
    EngineCoreOutputs,
    EngineGoodbye,
    EngineHello,
    EnginePhase,
    EngineToFrontend,
    FlightRecord,
    FrontendEntry,
    LoadReport,
    Message,
)
from cluster.wire.sampling import FinishReason, SamplingParams
from cluster.wire.sockets import (
    Context,
    bind_pull,
    bind_router,
    bind_xpub,
    new_context,
    receive_all,
    try_send,
)
from engine.input_io import FrontendGone, InputThread
from engine.io_thread import IoThread
from engine.output_io import OutputThread
from engine.proc import EngineCoreProc
from engine.scheduling.output import RunResult, SchedulerOutput
from tests.support.simulated_runner import SimulatedRunner, reference_output
from tests.support.waiting import wait_until

MAX_MODEL_LEN = 128
VOCAB_SIZE = 50
MessageT = TypeVar("MessageT")


class GatedRunner(SimulatedRunner):
    """The simulated model, whose steps a test can hold up."""

    max_model_len = MAX_MODEL_LEN
    model_fingerprint = "simulated"

    def __init__(self) -> None:
        super().__init__(64, 4, VOCAB_SIZE)
        self.gate = threading.Event()
        self.gate.set()
        self.lets_one_pass = False
        """Whether the gate closes behind the next step."""
        self.is_in_step = threading.Event()
        self.failure: Exception | None = None

    def execute(self, work: SchedulerOutput) -> list[RunResult]:
        """Compute a step once the gate is open."""
        self.is_in_step.set()
        assert self.gate.wait(20)
        self.is_in_step.clear()
        if self.lets_one_pass:
            self.lets_one_pass = False
            self.gate.clear()
        if self.failure is not None:
            raise self.failure
        return super().execute(work)


class Neighbour:
    """Another frontend, which asks nothing and keeps what it hears of the load."""

    def __init__(self, context: Context, endpoints: Endpoints) -> None:
        own = endpoints.frontend(1, 1)
        self.entry = FrontendEntry(1, 1, True, own.requests, own.outputs)
        self._router = bind_router(context, own.requests)
        self._outputs = bind_pull(context, own.outputs)
        self._decoder: Decoder[EngineToFrontend] = Decoder(EngineToFrontend)

    def close(self) -> None:
        self._router.close(linger=0)
        self._outputs.close(linger=0)

    def wait_for_load(self, is_wanted: Callable[[LoadReport], bool]) -> LoadReport:
        """The first report to come that is wanted."""

        def found() -> LoadReport | None:
            for frames in receive_all(self._outputs):
                message = self._decoder.decode(frames)
                assert isinstance(message, EngineCoreOutputs)
                assert not message.outputs
                if message.load is not None and is_wanted(message.load):
                    return message.load
            return None

        report = wait_until(found)
        assert report is not None
        return report


class Surroundings:
    """One frontend and the coordinator: they keep all that they hear."""

    def __init__(self, context: Context, endpoints: Endpoints) -> None:
        self._own = endpoints.frontend(0, 1)
        self._router = bind_router(context, self._own.requests)
        self._outputs = bind_pull(context, self._own.outputs)
        self._reports = bind_pull(context, endpoints.reports)
        self._view = bind_xpub(context, endpoints.view)
        self._encoder = Encoder()
        self._decoder: Decoder[EngineToFrontend] = Decoder(EngineToFrontend)
        self._reports_decoder: Decoder[LoadReport | BlockEvents | EngineGoodbye] = Decoder(
            LoadReport | BlockEvents | EngineGoodbye
        )
        self.heard: deque[Message] = deque()
        self.reported: deque[Message] = deque()
        self.neighbours: list[FrontendEntry] = []
        self._dispatch_seq = 0
        self._engine = b""
        """The identity with which the engine said hello last."""

    def close(self) -> None:
        for socket in (self._router, self._outputs, self._reports, self._view):
            socket.close(linger=0)

    def listen(self) -> None:
        """Take in what has arrived."""
        for identity, *frames in receive_all(self._router):
            message = self._decoder.decode(frames)
            if isinstance(message, EngineHello):
                self._engine = identity
            self.heard.append(message)
        self.heard += [self._decoder.decode(frames) for frames in receive_all(self._outputs)]
        self.reported += [
            self._reports_decoder.decode(frames) for frames in receive_all(self._reports)
        ]

    def wait_for(self, kind: type[MessageT], reported: bool = False) -> MessageT:
        """The oldest message of this kind that was not asked for yet."""
        messages = self.reported if reported else self.heard

        def found() -> MessageT | None:
            self.listen()
            for message in messages:
                if isinstance(message, kind):
                    messages.remove(message)
                    return message
            return None

        answer = wait_until(found)
        assert answer is not None
        return answer

    def wait_for_report(self, is_wanted: Callable[[LoadReport], bool]) -> LoadReport:
        """The first load report from now on that is wanted."""
        while not is_wanted(report := self.wait_for(LoadReport, reported=True)):
            pass
        return report

    def show(self, is_alive: bool = True, outputs_address: str | None = None) -> None:
        """Publish a view in which the frontend is alive, or dead."""
        address = self._own.outputs if outputs_address is None else outputs_address
        entry = FrontendEntry(0, 1, is_alive, self._own.requests, address)
        view = ClusterView(1, 1, draining=False, engines=[], frontends=[entry, *self.neighbours])
        try_send(self._view, [VIEW_TOPIC, *self._encoder.encode(view)])

    def join(self) -> None:
        """Show the frontend until the engine says hello."""

        def has_said_hello() -> bool:
            self.show()
            self.listen()
            return any(isinstance(message, EngineHello) for message in self.heard)

        wait_until(has_said_hello)
        self.wait_for(EngineHello)

    def ask(self, request_id: str, attempt: int = 0, max_tokens: int = 3) -> None:
        """Send a request."""
        self._dispatch_seq += 1
        request = AddRequest(
            request_id, 0, 1, self._dispatch_seq, attempt, [1, 2, 3], [], [],
            SamplingParams(max_tokens=max_tokens),
        )  # fmt: skip
        self.send(self._encoder.encode(request))

    def send(self, frames: list[bytes | bytearray | memoryview]) -> None:
        assert try_send(self._router, [self._engine, *frames])

    def read_answer(self, request_id: str) -> list[int]:
        """All tokens of this request's answer."""
        token_ids: list[int] = []
        while True:
            for output in self.wait_for(EngineCoreOutputs).outputs:
                if output.request_id == request_id:
                    token_ids += output.token_ids
                    if output.finish_reason is not None:
                        assert output.finish_reason is FinishReason.LENGTH, output.error
                        return token_ids


class RunningEngine:
    """An engine in a thread of the test."""

    def __init__(self, context: Context, config: ClusterConfig, overlaps_steps: bool) -> None:
        self.runner = GatedRunner()
        self.runner.overlaps_steps = overlaps_steps
        self.proc = EngineCoreProc(config, 0, 1, context)
        self.exit_code: int | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.exit_code = self.proc.run(lambda on_progress: self.runner)

    def wait(self) -> int | None:
        """The exit code, once it has ended."""
        self._thread.join(10)
        assert not self._thread.is_alive()
        return self.exit_code

    def stop(self) -> None:
        self.runner.gate.set()
        self.proc.stop()
        self.wait()


@pytest.fixture
def context() -> Iterator[Context]:
    context = new_context()
    yield context
    # Returns only if every socket was closed.
    terminating = threading.Thread(target=context.term)
    terminating.start()
    terminating.join(5)
    is_stuck = terminating.is_alive()
    context.destroy(linger=0)
    assert not is_stuck, "a socket was left open"


@pytest.fixture
def outside(context: Context, tmp_path: Path) -> Iterator[Surroundings]:
    with contextlib.closing(Surroundings(context, Endpoints(tmp_path))) as outside:
        yield outside


@pytest.fixture(params=[False, True], ids=["one step", "steps overlap"])
def engine(
    context: Context, outside: Surroundings, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[RunningEngine]:
    config = ClusterConfig(engine=EngineConfig(block_size=4), run_directory=str(tmp_path))
    running = RunningEngine(context, config, overlaps_steps=request.param)
    yield running
    running.stop()


def expected(max_tokens: int = 3) -> list[int]:
    sampling = SamplingParams(max_tokens=max_tokens)
    return reference_output([1, 2, 3], sampling, MAX_MODEL_LEN, VOCAB_SIZE)


def test_a_request_is_answered_and_the_last_words_reach_everybody(
    engine: RunningEngine, outside: Surroundings
) -> None:
    outside.join()
    outside.ask("a")
    assert outside.read_answer("a") == expected()
    engine.proc.stop()
    assert engine.wait() == 0
    for reported in (False, True):
        goodbye = outside.wait_for(EngineGoodbye, reported)
        assert (goodbye.drained, goodbye.flight) == (True, None)


def test_the_first_step_after_idleness_shows_as_work_while_it_lasts(
    engine: RunningEngine, outside: Surroundings
) -> None:
    outside.join()
    outside.wait_for_report(lambda report: report.phase is EnginePhase.READY)
    engine.runner.gate.clear()
    outside.ask("a")
    assert engine.runner.is_in_step.wait(10)
    report = outside.wait_for_report(lambda report: report.waiting + report.running > 0)
    assert (report.step, report.acknowledged) == (0, [(0, 1, 1)])


def test_what_arrives_during_a_step_is_told_to_the_other_frontends(
    engine: RunningEngine, outside: Surroundings, context: Context, tmp_path: Path
) -> None:
    with contextlib.closing(Neighbour(context, Endpoints(tmp_path))) as neighbour:
        outside.neighbours.append(neighbour.entry)
        outside.join()
        engine.runner.gate.clear()
        outside.ask("a")
        assert engine.runner.is_in_step.wait(10)
        outside.ask("b")
        outside.ask("c")
        report = neighbour.wait_for_load(lambda report: report.acknowledged == [(0, 1, 3)])
        assert report.waiting + report.running == 3
        assert report.waiting_prompt_tokens == 9
        engine.runner.gate.set()
        neighbour.wait_for_load(lambda report: report.waiting + report.running == 0)


def test_a_frontend_that_is_dropped_and_back_within_a_step_is_answered(
    engine: RunningEngine, outside: Surroundings
) -> None:
    outside.join()
    engine.runner.gate.clear()
    outside.ask("a", max_tokens=100)
    assert engine.runner.is_in_step.wait(10)
    # What the output thread says of a frontend whose queue is full.
    engine.proc._output.on_frontend_stuck(FrontendGone(0, 1))
    wait_until(lambda: not engine.proc._input or not engine.proc._input._links)
    outside.join()
    outside.ask("b")
    engine.runner.gate.set()
    assert outside.read_answer("b") == expected()


@pytest.mark.parametrize(("thread", "method"), [(InputThread, "_take"), (OutputThread, "_handle")])
def test_an_error_in_a_thread_ends_the_engine(
    engine: RunningEngine,
    outside: Surroundings,
    thread: type[IoThread],
    method: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outside.join()

    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(thread, method, fail)
    outside.ask("a")
    assert engine.wait() == 1
    if thread is InputThread:  # the other one lives, and tells of it
        assert "no space left" in outside.wait_for(EngineGoodbye).reason


def test_the_last_words_after_an_error_tell_who_was_in_the_step(
    engine: RunningEngine, outside: Surroundings, tmp_path: Path
) -> None:
    outside.join()
    engine.runner.gate.clear()
    outside.ask("a")
    assert engine.runner.is_in_step.wait(10)
    outside.ask("b")
    path, expected_flight = flight_record_path(tmp_path, 0, 1), FlightRecord(["a"], ["a"])
    assert read_flight_record(path) == expected_flight
    engine.runner.failure = RuntimeError("the device has failed")
    engine.runner.gate.set()
    assert engine.wait() == 1
    goodbye = outside.wait_for(EngineGoodbye)
    assert goodbye.cause == "error: RuntimeError: the device has failed"
    assert goodbye.flight == read_flight_record(path) == expected_flight


@pytest.mark.parametrize("engine", [True], indirect=True)
def test_the_last_words_tell_of_both_steps_in_flight(
    engine: RunningEngine, outside: Surroundings, tmp_path: Path
) -> None:
    outside.join()
    engine.runner.gate.clear()
    outside.ask("a", max_tokens=9)
    assert engine.runner.is_in_step.wait(10)
    outside.ask("b")
    outside.wait_for_report(lambda report: report.waiting + report.running == 2)
    engine.runner.lets_one_pass = True
    engine.runner.gate.set()
    path, expected_flight = flight_record_path(tmp_path, 0, 1), FlightRecord(["a", "b"], ["b"])
    wait_until(lambda: read_flight_record(path) == expected_flight)
    engine.runner.failure = RuntimeError("the device has failed")
    engine.runner.gate.set()
    assert engine.wait() == 1
    outputs = outside.wait_for(EngineCoreOutputs).outputs
    assert [output.token_ids for output in outputs] == [expected()[:1]]
    assert outside.wait_for(EngineGoodbye).flight == expected_flight


@pytest.mark.parametrize("engine", [True], indirect=True)
def test_an_engine_that_is_stopped_tells_what_was_in_flight(
    engine: RunningEngine, outside: Surroundings
) -> None:
    outside.join()
    engine.runner.gate.clear()
    outside.ask("a", max_tokens=9)
    assert engine.runner.is_in_step.wait(10)
    engine.stop()
    token_ids: list[int] = []
    outside.wait_for(EngineGoodbye)
    for message in outside.heard:
        if isinstance(message, EngineCoreOutputs):
            token_ids += [i for output in message.outputs for i in output.token_ids]
    assert token_ids == expected(9)[:2]


def test_nobody_is_in_the_flight_record_of_an_idle_engine(
    engine: RunningEngine, outside: Surroundings, tmp_path: Path
) -> None:
    outside.join()
    outside.ask("a")
    outside.read_answer("a")
    path = flight_record_path(tmp_path, 0, 1)
    wait_until(lambda: read_flight_record(path) == FlightRecord([]))


def test_a_bad_frame_is_counted_and_the_connection_goes_on(
    engine: RunningEngine, outside: Surroundings
) -> None:
    outside.join()
    outside.send([b"\xff", b"no message"])
    outside.ask("a")
    assert outside.read_answer("a") == expected()
