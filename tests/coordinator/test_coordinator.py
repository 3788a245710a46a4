"""The coordinator as a real thread with real sockets."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cluster.config import ClusterConfig
from cluster.telemetry.flight_recorder import FlightRecorder, flight_record_path
from cluster.wire.codec import Decoder, Encoder
from cluster.wire.endpoints import BLOCKS_TOPIC, VIEW_TOPIC, Endpoints
from cluster.wire.messages import (
    PROTOCOL_VERSION,
    BlockEvents,
    ClusterView,
    DesiredState,
    EnginePhase,
    FlightRecord,
    FrontendHello,
    LoadReport,
    Message,
    ProcessExited,
    ProcessStarted,
    Role,
)
from cluster.wire.sockets import (
    Context,
    Socket,
    connect_reports,
    connect_sub,
    receive_all,
    try_send,
)
from coordinator.coordinator import Coordinator
from tests.support.waiting import wait_until

Tell = Callable[[Message], None]
Subscribe = Callable[[bytes], Socket]


@pytest.fixture
def endpoints(context: Context, tmp_path: Path) -> Iterator[Endpoints]:
    """Where a coordinator listens that runs for the length of the test."""
    coordinator = Coordinator(ClusterConfig(run_directory=str(tmp_path)), 1, context)
    thread = threading.Thread(target=coordinator.run)
    thread.start()
    yield Endpoints(tmp_path)
    coordinator.stop()
    thread.join()


@pytest.fixture
def tell(context: Context, endpoints: Endpoints) -> Iterator[Tell]:
    """Reports to the coordinator."""
    with connect_reports(context, endpoints.reports) as socket:

        def send(message: Message) -> None:
            wait_until(lambda: try_send(socket, Encoder().encode(message)))

        yield send


@pytest.fixture
def subscribe(context: Context, endpoints: Endpoints) -> Iterator[Subscribe]:
    """Listens to one topic."""
    with ExitStack() as stack:
        yield lambda topic: stack.enter_context(connect_sub(context, endpoints.view, topic))


def next_view(socket: Socket) -> ClusterView:
    [topic, *frames] = wait_until(lambda: receive_all(socket, limit=1))[0]
    assert topic == VIEW_TOPIC
    view: ClusterView = Decoder(ClusterView).decode(frames)
    return view


def announced(views: Socket) -> list[int]:
    """The frontends of the first view that has any."""
    return wait_until(lambda: [frontend.index for frontend in next_view(views).frontends])


def hello(index: int, major: int = PROTOCOL_VERSION[0]) -> FrontendHello:
    return FrontendHello((major, 0), index, 1, "ipc://requests", "ipc://outputs")


def test_a_new_subscriber_gets_the_whole_view_at_once(tell: Tell, subscribe: Subscribe) -> None:
    tell(hello(0))
    first = subscribe(VIEW_TOPIC)
    assert announced(first) == [0]
    view = next_view(subscribe(VIEW_TOPIC))
    assert [frontend.index for frontend in view.frontends] == [0]


def test_a_frontend_of_another_protocol_is_not_announced(tell: Tell, subscribe: Subscribe) -> None:
    views = subscribe(VIEW_TOPIC)
    tell(hello(0, major=PROTOCOL_VERSION[0] + 1))
    tell(hello(1))
    assert announced(views) == [1]


def test_block_events_are_passed_on_as_they_are(tell: Tell, subscribe: Subscribe) -> None:
    blocks = subscribe(BLOCKS_TOPIC)
    views = subscribe(VIEW_TOPIC)
    next_view(views)  # by now both subscriptions have arrived
    events = BlockEvents(0, 1, 1, [b"a" * 16], [])
    tell(events)
    frames = wait_until(lambda: receive_all(blocks))[0]
    assert frames == [BLOCKS_TOPIC, *Encoder().encode(events)]


def test_block_events_of_strangers_and_of_the_dead_are_not_passed_on(
    tell: Tell, subscribe: Subscribe
) -> None:
    blocks = subscribe(BLOCKS_TOPIC)
    views = subscribe(VIEW_TOPIC)
    next_view(views)
    tell(DesiredState(2, 1, draining=False, processes=[]))
    tell(ProcessStarted(Role.ENGINE, 0, 2, pid=1))
    tell(ProcessExited(Role.ENGINE, 1, 1, "SIGKILL", fault=False))
    for rank, incarnation in [(0, 1), (0, 3), (1, 1), (2, 1), (0, 2)]:
        tell(BlockEvents(rank, incarnation, 1, [b"a" * 16], []))
    frames = wait_until(lambda: receive_all(blocks))[0]
    assert frames == [BLOCKS_TOPIC, *Encoder().encode(BlockEvents(0, 2, 1, [b"a" * 16], []))]


def test_an_engine_that_hangs_is_told_of_with_its_flight_record(
    tell: Tell, subscribe: Subscribe, tmp_path: Path
) -> None:
    flight = FlightRecord(["a", "b"], ["b"])
    recorder = FlightRecorder(flight_record_path(tmp_path, 0, 1), max_requests=8)
    recorder.record(flight)
    views = subscribe(VIEW_TOPIC)
    tell(LoadReport(0, 1, 1, EnginePhase.READY, running=2, seconds_since_step=60.0))
    [death] = wait_until(lambda: next_view(views).deaths)
    recorder.close()
    assert death.cause.startswith("hung:")
    assert death.flight == flight
