"""The client against engines that are played by hand: every order of messages can be had."""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from cluster.config import ClusterConfig, EngineConfig, FrontendConfig
from cluster.wire.messages import AbortRequests, EngineCoreOutput
from cluster.wire.sampling import SamplingParams
from cluster.wire.sockets import Context
from frontend.balancer import Balancer
from frontend.client import DPLBClient
from frontend.metrics import FrontendMetrics
from frontend.request import GenerationRequest
from tests.support.waiting import wait_until_async
from tests.support.wire_engine import BLOCK_SIZE, WireEngine

StartEngine = Callable[..., WireEngine]


@pytest.fixture
def queue_timeout() -> float:
    return 30.0


@pytest.fixture
async def client(
    tmp_path: Path, context: Context, queue_timeout: float
) -> AsyncIterator[DPLBClient]:
    config = ClusterConfig(
        engine=EngineConfig(data_parallel_size=2, block_size=BLOCK_SIZE),
        frontend=FrontendConfig(queue_timeout=queue_timeout),
        run_directory=str(tmp_path),
    )
    balancer = Balancer("marginal-cost", Random(0))
    client = DPLBClient(config, 0, 1, context, balancer, FrontendMetrics("m", 0))
    await client.start()
    yield client
    await client.stop()


@pytest.fixture
def engine(tmp_path: Path, context: Context) -> Iterator[StartEngine]:
    engines: list[WireEngine] = []

    def connect(rank: int = 0, incarnation: int = 1) -> WireEngine:
        engines.append(WireEngine(context, tmp_path, rank, incarnation))
        return engines[-1]

    yield connect
    for started in engines:
        started.close()


async def serve(client: DPLBClient, engine: WireEngine, **hello: str | int) -> None:
    known = client.num_ready_engines
    engine.say_hello(**hello)  # type: ignore[arg-type] # a test's own words
    await wait_until_async(lambda: client.num_ready_engines == known + 1)


def request(name: str, pinned_rank: int | None = None) -> GenerationRequest:
    return GenerationRequest(
        name, [1, 2, 3], [], SamplingParams(), time.monotonic(), pinned_rank=pinned_rank
    )


def output(name: str, attempt: int, first: int, *token_ids: int) -> EngineCoreOutput:
    return EngineCoreOutput(name, attempt, first, list(token_ids))


async def test_requests_keep_their_order_when_they_wait_and_when_they_move(
    client: DPLBClient, engine: StartEngine
) -> None:
    for name in ("a", "b", "c"):
        client.submit(request(name))
    first = engine()
    await serve(client, first)
    assert [(await first.next_request()).request_id for _ in "abc"] == ["a", "b", "c"]
    first.say_goodbye()
    await wait_until_async(lambda: client.num_ready_engines == 0)
    client.submit(request("d"))
    second = engine(1)
    await serve(client, second)
    assert [(await second.next_request()).request_id for _ in "abcd"] == ["a", "b", "c", "d"]


async def test_an_engine_whose_connection_was_away_for_long_serves_again(
    client: DPLBClient, engine: StartEngine
) -> None:
    away = engine()
    await serve(client, away)
    away.disconnect()
    await wait_until_async(lambda: client.num_ready_engines == 0)
    # Later than the last probe that the closed connection itself has brought about.
    await wait_until_async(lambda: all(p.when() < time.monotonic() for p in client._probes))
    away.connect()
    await wait_until_async(lambda: client.num_ready_engines == 1, 0.9)


async def test_skipped_tokens_are_asked_for_again_and_cost_no_other_request(
    client: DPLBClient, engine: StartEngine
) -> None:
    forgetful = engine()
    await serve(client, forgetful)
    streams = [client.submit(request(name)) for name in ("a", "b")]
    for _ in streams:
        await forgetful.next_request()
    forgetful.put_out(output("a", 0, 0, 5))
    forgetful.put_out(output("a", 0, 2, 7), output("b", 0, 0, 9))
    abort = await forgetful.next_message()
    assert isinstance(abort, AbortRequests)
    again = await forgetful.next_request()
    assert (again.request_id, again.attempt, again.output_token_ids) == ("a", 1, [5])
    await wait_until_async(lambda: streams[1].token_ids == [9])
    forgetful.put_out(output("a", 0, 3, 8), output("a", 1, 1, 6))
    await wait_until_async(lambda: streams[0].token_ids == [5, 6])


async def test_an_engine_that_always_skips_tokens_is_not_asked_for_ever(
    client: DPLBClient, engine: StartEngine
) -> None:
    broken = engine()
    await serve(client, broken)
    stream = client.submit(request("a"))
    for attempt in range(3):
        assert (await broken.next_request()).attempt == attempt
        broken.put_out(output("a", attempt, 4, 1))
        assert isinstance(await broken.next_message(), AbortRequests)
    batch = await stream.next()
    assert batch is not None
    assert "skipped tokens" in batch.error


async def test_what_has_begun_goes_on_with_equal_weights_only(
    client: DPLBClient, engine: StartEngine
) -> None:
    first = engine(0)
    await serve(client, first)
    begun, not_begun = client.submit(request("begun")), client.submit(request("not begun"))
    first.put_out(output("begun", 0, 0, 5))
    await wait_until_async(lambda: begun.token_ids == [5])
    first.say_goodbye()
    other = engine(1)
    await wait_until_async(lambda: client.num_ready_engines == 0)
    await serve(client, other, model_fingerprint="another model")
    assert (await other.next_request()).request_id == not_begun.request.request_id
    assert begun.engine_rank is None
    same = engine(0, incarnation=2)
    await serve(client, same)
    assert (await same.next_request()).request_id == "begun"


@pytest.mark.parametrize("hello", [{"block_size": 32}, {"hash_seed": "another"}])
async def test_an_engine_that_counts_blocks_otherwise_is_refused(
    client: DPLBClient,
    engine: StartEngine,
    hello: dict[str, str | int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine(0).say_hello(**hello)  # type: ignore[arg-type] # one of its settings
    await serve(client, engine(1))
    await wait_until_async(lambda: len(caplog.records) == 1)
    assert "engine 0.1 is refused" in caplog.text
    assert client.num_ready_engines == 1


async def test_a_call_that_an_engine_does_not_answer_ends_and_leaves_nothing(
    client: DPLBClient, engine: StartEngine
) -> None:
    await serve(client, engine())
    results = await client.call_engines("ping", timeout_seconds=0.05)
    assert results[0].error == "no answer in time"
    assert not client._calls._calls


@pytest.mark.parametrize("queue_timeout", [0.3])
async def test_a_turn_that_fails_is_logged_and_not_the_last(
    client: DPLBClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: float) -> None:
        monkeypatch.undo()
        raise ValueError("a bug")

    monkeypatch.setattr(client._view, "expire", fail)
    stream = client.submit(request("a"))
    await wait_until_async(lambda: stream.is_finished)
    batch = await stream.next()
    assert batch is not None
    assert batch.retry_after_seconds
    assert "ValueError: a bug" in caplog.text


async def test_a_message_that_fails_costs_no_other(
    client: DPLBClient, engine: StartEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = engine()
    await serve(client, serving)
    stream = client.submit(request("a"))
    take = client._metrics.tokens

    def fail(rank: int, count: int) -> None:
        monkeypatch.setattr(client._metrics, "tokens", take)
        raise ValueError("a bug")

    monkeypatch.setattr(client._metrics, "tokens", fail)
    for index in range(5):
        serving.put_out(output("a", 0, index, index))
    await wait_until_async(lambda: stream.token_ids == [0, 1, 2, 3, 4])


async def test_many_that_wait_are_cheap_to_hold_to_send_and_to_leave(
    client: DPLBClient, engine: StartEngine
) -> None:
    started_at = time.process_time()
    streams = [client.submit(request(str(number))) for number in range(4000)]
    for stream in streams[:1999:-1]:
        stream.abort()
    await serve(client, engine())
    assert client.num_in_flight == 2000
    assert time.process_time() - started_at < 2


@pytest.mark.parametrize("abort_first", [True, False])
async def test_an_abort_and_the_death_of_the_engine_may_come_in_one_turn(
    client: DPLBClient, engine: StartEngine, abort_first: bool
) -> None:
    serving = engine()
    await serve(client, serving)
    stream = client.submit(request("a"))
    await serving.next_request()
    if abort_first:
        stream.abort()
    client.on_goodbye(serving.goodbye())
    stream.abort()
    assert client.num_in_flight == 0
    later = engine(1)
    await serve(client, later)
    client.submit(request("b"))
    assert (await later.next_request()).request_id == "b"
