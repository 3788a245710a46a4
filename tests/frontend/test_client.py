"""The client against engines that are played by hand: every order of messages can be had."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from prometheus_client import Counter

from cluster.config import ClusterConfig, EngineConfig, FrontendConfig
from cluster.errors import Convicted, InvalidRequest, NotServing
from cluster.wire.block_hash import hash_blocks
from cluster.wire.messages import (
    AbortRequests,
    BlockEvents,
    ClusterView,
    Conviction,
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineEntry,
    EngineGoodbye,
    EnginePhase,
    EngineState,
    FlightRecord,
    LoadReport,
    Utility,
)
from cluster.wire.sampling import FinishReason, SamplingParams
from cluster.wire.sockets import Context
from frontend.balancer import Balancer
from frontend.client import DPLBClient
from frontend.convictions import fingerprint
from frontend.metrics import FrontendMetrics
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream
from frontend.utility_calls import UtilityCalls
from tests.support.waiting import POLL_SECONDS, wait_until_async
from tests.support.wire_engine import BLOCK_SIZE, WireEngine

StartEngine = Callable[..., WireEngine]


@pytest.fixture
def queue_timeout() -> float:
    return 30.0


@pytest.fixture
def max_resumable_tokens() -> int:
    return 1_000_000


@pytest.fixture
async def client(
    tmp_path: Path, context: Context, queue_timeout: float, max_resumable_tokens: int
) -> AsyncIterator[DPLBClient]:
    config = ClusterConfig(
        engine=EngineConfig(data_parallel_size=2, block_size=BLOCK_SIZE),
        frontend=FrontendConfig(
            queue_timeout=queue_timeout, max_resumable_tokens=max_resumable_tokens
        ),
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
    await wait_until_async(lambda: not client._probes)
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
    take = client._metrics.first_token

    def fail(*_: object) -> None:
        monkeypatch.setattr(client._metrics, "first_token", take)
        raise ValueError("a bug")

    monkeypatch.setattr(client._metrics, "first_token", fail)
    for index in range(5):
        serving.put_out(output("a", 0, index, index))
    await wait_until_async(lambda: stream.token_ids == [0, 1, 2, 3, 4])


async def test_the_metrics_have_the_end_and_the_tokens_that_the_client_was_told_of(
    client: DPLBClient, engine: StartEngine
) -> None:
    serving = engine()
    await serve(client, serving)
    stream = client.submit(request("a"))
    await serving.next_request()
    serving.put_out(EngineCoreOutput("a", 0, 0, [7, 8, 9], FinishReason.LENGTH))
    await wait_until_async(lambda: client.num_in_flight == 0)
    batch = await stream.next()
    assert batch is not None
    stream.tell(batch, 2)  # the second token completes a stop string
    stream.end(FinishReason.STOP)
    stream.end()
    assert counted(client._metrics._finished) == {("m", "0", "stop"): 1}
    assert counted(client._metrics._generation_tokens) == {("m", "0"): 2}


def counted(counter: Counter) -> dict[tuple[str, ...], float]:
    """What a counter says, by its labels."""
    return {
        tuple(sample.labels.values()): sample.value
        for metric in counter.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    }


async def test_a_request_that_cannot_be_dispatched_ends_and_costs_no_other(
    client: DPLBClient, engine: StartEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = engine()
    await serve(client, serving)

    def fail(*_: object) -> None:
        monkeypatch.undo()
        raise ValueError("a bug")

    monkeypatch.setattr(client._dispatcher._balancer, "choose", fail)
    batch = await client.submit(request("a")).next()
    assert batch is not None
    assert "could not be sent" in batch.error
    stream = client.submit(request("b"))
    serving.put_out(output("b", 0, 0, 7))
    await wait_until_async(lambda: stream.token_ids == [7])


async def test_many_that_wait_are_cheap_to_hold_to_send_and_to_leave(
    client: DPLBClient, engine: StartEngine
) -> None:
    started_at = time.process_time()
    streams = [client.submit(request(str(number))) for number in range(4000)]
    for stream in streams[:1999:-1]:
        stream.end()
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
        stream.end()
    client.on_goodbye(serving.goodbye())
    stream.end()
    assert client.num_in_flight == 0
    later = engine(1)
    await serve(client, later)
    client.submit(request("b"))
    assert (await later.next_request()).request_id == "b"


# ── suspicion ──


def fail(engine: WireEngine, *in_step: str) -> None:
    """End by a fault, in a step in which these requests were in prefill."""
    flight = FlightRecord(list(in_step), list(in_step))
    engine.tell(EngineGoodbye(engine.rank, engine.incarnation, False, "a crash", flight))


def view(*engines: EngineEntry, **fields: Any) -> ClusterView:
    return ClusterView(1, 1, False, list(engines), [], **fields)


async def error_of(stream: RequestStream) -> str:
    batch = await stream.next(5)
    assert batch is not None
    return batch.error


async def test_suspects_are_isolated_and_each_engine_gets_one_at_a_time(
    client: DPLBClient, engine: StartEngine
) -> None:
    first = engine(0)
    await serve(client, first)
    streams = [client.submit(request(name)) for name in ("a", "b", "c")]
    for _ in streams:
        await first.next_request()
    fail(first, "a", "b")
    await wait_until_async(lambda: client.num_ready_engines == 0)
    assert client.describe()["suspects"] == 2
    second = engine(1)
    await serve(client, second)
    sent = [await second.next_request() for _ in range(2)]
    assert [(add.request_id, add.isolated_until) for add in sent] == [("a", 4), ("c", 0)]
    assert streams[1].engine_rank is None
    second.put_out(output("a", 1, 0, 5, 6, 7))
    client.submit(request("d"))  # the one that must wait holds up nobody
    assert (await second.next_request()).request_id == "d"
    second.put_out(output("a", 1, 3, 8))
    freed = await second.next_request()
    assert (freed.request_id, freed.isolated_until) == ("b", 4)
    assert client.describe()["suspects"] == 1


async def test_who_kills_alone_is_refused_from_then_on_with_any_seed(
    client: DPLBClient, engine: StartEngine
) -> None:
    first, second = engine(0), engine(1)
    await serve(client, first)
    poison = client.submit(request("poison"))
    await first.next_request()
    fail(first, "poison")
    await wait_until_async(lambda: client.num_ready_engines == 0)
    await serve(client, second)
    other = client.submit(replace(request("other"), prompt_token_ids=[9]))
    await second.next_request()
    fail(second, "poison")
    assert "has ended the engines" in await error_of(poison)
    assert not other.is_finished
    with pytest.raises(Convicted):
        client.submit(replace(request("again"), sampling=SamplingParams(seed=3, choice=1)))
    client.submit(replace(request("hotter"), sampling=SamplingParams(temperature=0.5)))
    assert client.describe()["convictions"] == 1


async def test_the_convictions_of_others_end_what_waits_and_spare_what_runs(
    client: DPLBClient, engine: StartEngine
) -> None:
    serving = engine(0)
    await serve(client, serving)
    runs = client.submit(request("runs"))
    await serving.next_request()
    client.on_view(view(EngineEntry(0, 1, EngineState.SUSPECT)))
    waits = client.submit(request("waits"))
    told = [Conviction(fingerprint(runs.request), 60.0)]
    client.on_view(view(EngineEntry(0, 1, EngineState.READY), convictions=told))
    assert "ended the engines" in await error_of(waits)
    assert not runs.is_finished


async def test_a_conviction_ends_after_its_time(client: DPLBClient) -> None:
    client.on_view(view(convictions=[Conviction(fingerprint(request("a")), 0.05)]))
    with pytest.raises(Convicted):
        client.submit(request("a"))
    await wait_until_async(lambda: client.describe()["convictions"] == 0)
    client.submit(request("a"))


# ── prefixes ──

PROMPT = list(range(5 * BLOCK_SIZE))
PROMPT_HASHES = hash_blocks(PROMPT, BLOCK_SIZE)


def prefixed(name: str, *more_token_ids: int) -> GenerationRequest:
    """A request that begins with the prompt."""
    prompt = [*PROMPT, *more_token_ids]
    return replace(
        request(name), prompt_token_ids=prompt, block_hashes=hash_blocks(prompt, BLOCK_SIZE)
    )


def cache(client: DPLBClient, *block_hashes: bytes, rank: int = 0) -> None:
    """Let an engine tell that it holds these blocks."""
    client.on_block_events(BlockEvents(rank, 1, 1, list(block_hashes), []))


def acknowledge_all(client: DPLBClient) -> None:
    """What was sent before counts no longer, as if every engine had reported."""
    for book in client._view.books.values():
        book._sent.forget_until(99)


def uncomputed_tokens(client: DPLBClient) -> int:
    """What the only engine is expected to compute for what it was sent."""
    return client._view.books[0].load(0.0).sent.uncomputed_tokens


async def test_a_request_goes_where_its_prefix_is(client: DPLBClient, engine: StartEngine) -> None:
    holder = engine(1)
    await serve(client, engine(0))
    await serve(client, holder)
    cache(client, *PROMPT_HASHES, rank=1)
    before = counted(client._metrics._hit_tokens).get(("1",), 0)
    for name in ("a", "b", "c", "d"):
        stream = client.submit(prefixed(name, 7))
        assert stream.engine_rank == 1
        holder.put_out(EngineCoreOutput(name, 0, 0, [7], FinishReason.LENGTH))
        await wait_until_async(lambda: client.num_in_flight == 0)
        acknowledge_all(client)
    assert counted(client._metrics._hit_tokens)["1",] - before == 4 * len(PROMPT)


async def test_of_a_prompt_that_is_wholly_cached_one_token_is_computed(
    client: DPLBClient, engine: StartEngine
) -> None:
    await serve(client, engine())
    cache(client, *PROMPT_HASHES)
    client.submit(prefixed("a"))
    assert uncomputed_tokens(client) == 1


async def test_prompt_logprobs_need_the_whole_prompt_computed(
    client: DPLBClient, engine: StartEngine
) -> None:
    await serve(client, engine())
    cache(client, *PROMPT_HASHES)
    client.submit(replace(prefixed("a"), sampling=SamplingParams(prompt_logprobs=1)))
    assert uncomputed_tokens(client) == len(PROMPT)


async def test_what_is_sent_somewhere_counts_as_cached_there(
    client: DPLBClient, engine: StartEngine
) -> None:
    serving = engine()
    await serve(client, serving)
    client.submit(prefixed("a"))
    client.submit(prefixed("b", 7))
    assert uncomputed_tokens(client) == len(PROMPT) + 1
    serving.put_out(EngineCoreOutput("a", 0, 0, [7], FinishReason.LENGTH))
    serving.put_out(EngineCoreOutput("b", 0, 0, [7], FinishReason.LENGTH))
    await wait_until_async(lambda: client.num_in_flight == 0)
    client.submit(prefixed("c"))
    assert uncomputed_tokens(client) == 2 * len(PROMPT) + 1


async def test_a_session_goes_on_where_it_was(client: DPLBClient, engine: StartEngine) -> None:
    engines = [engine(rank) for rank in range(2)]
    for serving in engines:
        await serve(client, serving)
    ranks = set()
    for name in ("a", "b", "c", "d", "e"):
        stream = client.submit(replace(prefixed(name), block_hashes=[], session="s"))
        assert stream.engine_rank is not None
        ranks.add(stream.engine_rank)
        engines[stream.engine_rank].put_out(EngineCoreOutput(name, 0, 0, [7], FinishReason.LENGTH))
        await wait_until_async(lambda: client.num_in_flight == 0)
        acknowledge_all(client)
    assert len(ranks) == 1


async def test_decisions_are_told_the_newest_first(client: DPLBClient, engine: StartEngine) -> None:
    await serve(client, engine())
    cache(client, *PROMPT_HASHES)
    for name in ("a", "b"):
        client.submit(prefixed(name))
    told: list[Any] = client.decisions(256)
    assert [(decision["request_id"], decision["chosen"]) for decision in told] == [
        ("b", 0),
        ("a", 0),
    ]
    assert told[0]["engines"][0]["hit_tokens"] == len(PROMPT) - 1


async def test_an_engine_is_asked_for_events_that_have_not_come(
    client: DPLBClient, engine: StartEngine
) -> None:
    serving = engine()
    await serve(client, serving)
    report = LoadReport(0, 1, 1, EnginePhase.READY, events_seq=2)
    serving.tell(EngineCoreOutputs(0, 1, [], report))
    cache(client, *PROMPT_HASHES)

    async def coordinator() -> None:
        while True:
            client.on_view(view(EngineEntry(0, 1, EngineState.READY)))
            await asyncio.sleep(POLL_SECONDS)

    coordinating = asyncio.create_task(coordinator())
    assert await serving.next_message() == Utility(0, 0, "publish_blocks")
    client.on_block_events(BlockEvents(0, 1, 3, PROMPT_HASHES[:1], [], cleared=True))
    assert not client._view.resyncs_due(time.monotonic() + 60)
    assert client._view.books[0].prefix.num_blocks == 1
    coordinating.cancel()


# ── what cannot move ──


@pytest.mark.parametrize("max_resumable_tokens", [19])
async def test_what_is_too_long_to_be_kept_moves_only_before_its_first_token(
    client: DPLBClient, engine: StartEngine
) -> None:
    first = engine(0)
    await serve(client, first)
    long = [
        client.submit(replace(request(name), prompt_token_ids=[1, 2, 3, 4])) for name in ("a", "b")
    ]
    short = client.submit(request("short"))
    assert [stream.is_resumable for stream in (*long, short)] == [False, False, True]
    for _ in range(3):
        await first.next_request()
    first.put_out(output("a", 0, 0, 5, 6), output("short", 0, 0, 5))
    await wait_until_async(lambda: short.token_ids == [5])
    assert (long[0].num_output_tokens, long[0].token_ids) == (2, [])
    assert (await error_of(long[0])) == ""
    first.say_goodbye()
    assert "max_resumable_tokens (19)" in await error_of(long[0])
    second = engine(1)
    await serve(client, second)
    assert [(await second.next_request()).request_id for _ in "bs"] == ["b", "short"]


# ── what views say ──


async def test_a_draining_engine_keeps_what_it_has_and_gets_nothing_new(
    client: DPLBClient, engine: StartEngine
) -> None:
    leaving = engine(0)
    await serve(client, leaving)
    stays = client.submit(request("stays"))
    await leaving.next_request()
    engines = [EngineEntry(0, 1, EngineState.DRAINING), EngineEntry(1, 1, EngineState.STARTING)]
    client.on_view(view(*engines, num_engines=2))
    assert client.num_ready_engines == 0
    assert (client.engine_counts.draining, client.engine_counts.total) == (1, 2)
    waits = client.submit(request("waits"))
    leaving.put_out(output("stays", 0, 0, 5))
    await wait_until_async(lambda: stays.token_ids == [5])
    assert waits.engine_rank is None
    other = engine(1)
    await serve(client, other)
    assert (await other.next_request()).request_id == "waits"
    leaving.say_goodbye()
    moved = await other.next_request()
    assert (moved.request_id, moved.output_token_ids) == ("stays", [5])


async def test_a_pin_is_measured_by_the_size_that_the_view_tells(client: DPLBClient) -> None:
    with pytest.raises(InvalidRequest, match="between 0 and 1, not 3"):
        client.submit(request("a", pinned_rank=3))
    client.on_view(view(num_engines=4))
    with pytest.raises(NotServing, match="engine 3 is not serving"):
        client.submit(request("a", pinned_rank=3))


async def test_what_full_engines_do_not_take_is_sent_as_soon_as_a_report_shows_room(
    client: DPLBClient, engine: StartEngine
) -> None:
    serving = engine(0)
    await serve(client, serving)
    streams = [client.submit(request(str(number))) for number in range(80)]
    sent = sum(stream.engine_rank == 0 for stream in streams)
    assert 0 < sent < 80
    requests = [await serving.next_request() for _ in range(sent)]
    report = LoadReport(
        0, 1, 1, EnginePhase.READY, running=sent, acknowledged=[(0, 1, requests[-1].dispatch_seq)]
    )
    serving.tell(EngineCoreOutputs(0, 1, [], report))
    assert (await serving.next_request()).request_id == str(sent)


async def test_the_late_obituary_of_one_incarnation_fails_no_call_of_the_next() -> None:
    calls = UtilityCalls()
    call_id, answer = calls.open(0, 2, 5.0)
    calls.fail(0, 1, "SIGSEGV")
    assert not answer.done()
    calls.fail(0, 2, "SIGSEGV")
    assert (await answer).call_id == call_id
