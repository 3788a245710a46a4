"""A client, a coordinator and engines over the real wire; the faults are real ones."""

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.errors import Convicted, InvalidRequest, NotServing
from cluster.wire.messages import ProcessExited, Role
from cluster.wire.sampling import SamplingParams
from frontend.client import DPLBClient
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream
from tests.support.engine_process import ANY_RANK, FAULT_TOKEN
from tests.support.small_cluster import SmallCluster, expected_output, new_request, read_all
from tests.support.waiting import wait_until_async

StartCluster = Callable[..., Awaitable[tuple[SmallCluster, DPLBClient]]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[StartCluster]:
    clusters: list[SmallCluster] = []

    async def start_cluster(
        num_engines: int = 2,
        step_seconds: float = 0.005,
        faults: Sequence[str] = (),
        async_scheduling: bool = False,
    ) -> tuple[SmallCluster, DPLBClient]:
        clusters.append(SmallCluster(tmp_path, num_engines, step_seconds, faults, async_scheduling))
        return clusters[-1], await clusters[-1].start_client()

    yield start_cluster
    for cluster in clusters:
        await cluster.close()


def requests(count: int, max_tokens: int = 60, seed: int = 0) -> list[GenerationRequest]:
    source = random.Random(seed)
    return [
        new_request(
            source.choices(range(600), k=source.randrange(1, 80)),
            SamplingParams(max_tokens=max_tokens, seed=number),
            time.monotonic(),
        )
        for number in range(count)
    ]


async def check_answers(streams: list[RequestStream]) -> None:
    async with asyncio.timeout(40):
        for stream in streams:
            assert await read_all(stream) == expected_output(stream.request)


async def error_of(stream: RequestStream) -> str:
    async with asyncio.timeout(40):
        while (batch := await stream.next()) is None or batch.finish_reason is None:
            pass
    return batch.error


async def in_mid_stream(streams: list[RequestStream]) -> None:
    """Wait until some of these streams have begun and none has ended."""

    def has_begun() -> bool:
        return sum(len(stream.token_ids) >= 3 for stream in streams) >= min(4, len(streams))

    await wait_until_async(has_begun, 20)
    assert not any(stream.is_finished for stream in streams)


async def idle_everywhere(client: DPLBClient, num_engines: int) -> None:
    """Nothing is in flight, and the engines account for every block."""
    assert client.num_in_flight == 0
    results = await client.call_engines("check_invariants")
    assert len(results) == num_engines
    assert all(result.result == "true" for result in results.values())

    def are_engines_idle() -> bool:
        engines: Any = client.describe()["engines"]
        loads = [engine["load"] for engine in engines if engine.get("state") == "ready"]
        busy = [load for load in loads if load["waiting"] or load["running"] or load["used_blocks"]]
        return len(loads) == num_engines and not busy

    await wait_until_async(are_engines_idle, 5)


async def test_requests_are_answered_and_spread_over_the_engines(start: StartCluster) -> None:
    _, client = await start()
    streams = [client.submit(request) for request in requests(16)]
    # Those behind these go where there is room as answers come: by how fast the machine is there.
    first_ranks = [stream.engine_rank for stream in streams[:4]]
    await check_answers(streams)
    assert (first_ranks.count(0), first_ranks.count(1)) == (2, 2)
    await idle_everywhere(client, 2)


@pytest.mark.parametrize("async_scheduling", [False, True])
async def test_the_death_of_an_engine_loses_no_token(
    start: StartCluster, async_scheduling: bool
) -> None:
    cluster, client = await start(async_scheduling=async_scheduling)
    streams = [client.submit(request) for request in requests(16)]
    await in_mid_stream(streams)
    cluster.kill_engine(0)
    await check_answers(streams)
    assert any(stream.num_migrations == 1 for stream in streams)
    assert {stream.engine_rank for stream in streams} == {0, 1} or all(
        stream.engine_rank == 1 for stream in streams
    )


async def test_an_engine_that_comes_back_serves_again(start: StartCluster) -> None:
    cluster, client = await start()
    cluster.kill_engine(0)
    await wait_until_async(lambda: client.num_ready_engines == 1, 5)
    cluster.start_engine(0, incarnation=2)
    await wait_until_async(lambda: client.num_ready_engines == 2, 20)
    streams = [client.submit(request) for request in requests(8)]
    await check_answers(streams)
    assert {stream.engine_rank for stream in streams} == {0, 1}
    await idle_everywhere(client, 2)


async def test_with_all_engines_dead_requests_wait_for_one(start: StartCluster) -> None:
    cluster, client = await start()
    streams = [client.submit(request) for request in requests(8)]
    await in_mid_stream(streams)
    cluster.kill_engine(0)
    cluster.kill_engine(1)
    await wait_until_async(lambda: client.num_ready_engines == 0, 5)
    streams += [client.submit(request) for request in requests(4, seed=1)]
    cluster.start_engine(1, incarnation=2)
    await check_answers(streams)


async def test_a_frozen_engine_is_left_and_not_believed_when_it_thaws(start: StartCluster) -> None:
    cluster, client = await start()
    streams = [client.submit(request) for request in requests(12, max_tokens=200)]
    await in_mid_stream(streams)
    cluster.signal_engine(0, signal.SIGSTOP)
    frozen_at = time.monotonic()
    await wait_until_async(lambda: all(s.engine_rank != 0 for s in streams), 8)
    assert time.monotonic() - frozen_at < 5.0
    cluster.signal_engine(0, signal.SIGCONT)
    await check_answers(streams)
    assert client.num_ready_engines == 1


async def test_the_death_of_the_coordinator_disturbs_nobody(start: StartCluster) -> None:
    cluster, client = await start()
    streams = [client.submit(request) for request in requests(16, max_tokens=100)]
    await in_mid_stream(streams)
    cluster.coordinator.kill()
    cluster.coordinator.wait()
    streams += [client.submit(request) for request in requests(8, seed=2)]
    cluster.start_coordinator()
    await check_answers(streams)
    assert all(stream.num_migrations == 0 for stream in streams)
    await idle_everywhere(client, 2)


async def test_without_a_coordinator_a_killed_engine_is_noticed_all_the_same(
    start: StartCluster,
) -> None:
    cluster, client = await start()
    cluster.coordinator.kill()
    cluster.coordinator.wait()
    streams = [client.submit(request) for request in requests(8, max_tokens=100)]
    await in_mid_stream(streams)
    cluster.kill_engine(0, tell=False)
    await check_answers(streams)


async def test_an_engine_that_is_asked_to_stop_hands_its_requests_over(
    start: StartCluster,
) -> None:
    cluster, client = await start()
    streams = [client.submit(request) for request in requests(8)]
    await in_mid_stream(streams)
    cluster.signal_engine(0, signal.SIGTERM)
    await check_answers(streams)
    await wait_until_async(lambda: cluster.engines[0].process.poll() == 0)


async def test_a_device_error_ends_one_engine_and_its_innocent_requests_move(
    start: StartCluster,
) -> None:
    cluster, client = await start()
    streams = [client.submit(request) for request in requests(6)]
    await in_mid_stream(streams)
    last_straw = new_request([FAULT_TOKEN, 0], SamplingParams(), time.monotonic(), pinned_rank=0)
    streams.append(client.submit(last_straw))
    await check_answers(streams)
    await wait_until_async(lambda: cluster.engines[0].process.poll() == 1)
    assert client.num_ready_engines == 1


async def test_a_request_that_fails_every_engine_is_convicted_by_the_second(
    start: StartCluster,
) -> None:
    cluster, client = await start(num_engines=1)
    request = new_request([FAULT_TOKEN, ANY_RANK], SamplingParams(), time.monotonic())
    poison = client.submit(request)
    while not poison.is_finished:
        await wait_until_async(lambda: cluster.engines[0].process.poll() == 1, 20)
        await wait_until_async(lambda: client.num_ready_engines == 0, 20)
        if not poison.is_finished:
            cluster.start_engine(0, incarnation=cluster.engines[0].incarnation + 1)
    assert "ended the engines" in await error_of(poison)
    assert cluster.engines[0].incarnation == 2
    again = replace(request, request_id="again", sampling=SamplingParams(seed=5))
    with pytest.raises(Convicted):
        client.submit(again)


@pytest.mark.parametrize("async_scheduling", [False, True])
@pytest.mark.parametrize(("output", "max_deaths"), [(None, 2), (0, 3), (5, 3)])
async def test_a_poison_among_others_ends_alone(
    start: StartCluster, output: int | None, max_deaths: int, async_scheduling: bool
) -> None:
    fault = "segfault:prompt=7-8-9" + (f":output={output}" if output is not None else "")
    cluster, client = await start(faults=[fault], async_scheduling=async_scheduling)
    other = await cluster.start_client(index=1)
    streams = [taker.submit(request) for taker in (client, other) for request in requests(6)]
    await in_mid_stream(streams)
    request = new_request([1, 7, 8, 9], SamplingParams(max_tokens=30), time.monotonic())
    poison = client.submit(request)
    restarting = asyncio.create_task(cluster.restart_the_dead())
    try:
        await check_answers(streams)
        assert "ended the engines" in await error_of(poison)
        # The second frontend has it from the coordinator.
        await wait_until_async(lambda: other.describe()["convictions"] == 1)
        for taker in (client, other):
            with pytest.raises(Convicted):
                taker.submit(replace(request, request_id=f"again {id(taker)}"))
        await wait_until_async(lambda: client.num_ready_engines == 2, 20)
    finally:
        restarting.cancel()
    assert sum(engine.incarnation - 1 for engine in cluster.engines.values()) <= max_deaths
    assert client.describe()["suspects"] == 0


async def test_an_obituary_that_comes_late_raises_suspicion_and_moves_nobody(
    start: StartCluster,
) -> None:
    cluster, client = await start(step_seconds=0.02, faults=["segfault:prompt=7-8-9:rank=0"])
    cluster.coordinator.kill()
    cluster.coordinator.wait()
    sampling = SamplingParams(max_tokens=300)
    suspect = client.submit(new_request([7, 8, 9], sampling, time.monotonic(), pinned_rank=0))
    obituary = cluster.obituary(0)
    assert obituary.flight is not None
    assert obituary.flight.prefill_request_ids == [suspect.request.request_id]
    await wait_until_async(lambda: len(suspect.token_ids) > 3, 20)
    attempts = [in_flight.attempt for in_flight in client._requests]
    assert client._suspicions.deaths_of(suspect.request.request_id) == set()
    cluster.start_coordinator()

    def is_known() -> bool:
        cluster.tell(obituary)
        return bool(client._suspicions.deaths_of(suspect.request.request_id))

    await wait_until_async(is_known, 10)
    assert [in_flight.attempt for in_flight in client._requests] == attempts == [1]
    await check_answers([suspect])


async def test_an_aborted_request_leaves_the_engine(start: StartCluster) -> None:
    _, client = await start(step_seconds=0.02)
    streams = [client.submit(request) for request in requests(30, max_tokens=500)]
    await in_mid_stream(streams)
    for stream in streams:
        stream.end()
    await idle_everywhere(client, 2)


async def test_a_dead_frontends_requests_leave_the_engines(start: StartCluster) -> None:
    cluster, client = await start(step_seconds=0.02)
    other = await cluster.start_client(index=1)
    streams = [other.submit(request) for request in requests(8, max_tokens=500)]
    await in_mid_stream(streams)
    cluster.tell(ProcessExited(Role.FRONTEND, 1, 1, "SIGKILL", fault=False))
    await idle_everywhere(client, 2)


async def test_a_pin_is_kept_and_a_wrong_one_refused(start: StartCluster) -> None:
    cluster, client = await start()
    pinned = [
        client.submit(new_request([5, number], SamplingParams(max_tokens=4), time.monotonic(), 1))
        for number in range(6)
    ]
    await check_answers(pinned)
    assert {stream.engine_rank for stream in pinned} == {1}
    with pytest.raises(InvalidRequest, match="between 0 and 1"):
        client.submit(new_request([5], SamplingParams(), time.monotonic(), 2))
    cluster.kill_engine(1)
    await wait_until_async(lambda: client.num_ready_engines == 1, 5)
    with pytest.raises(NotServing):
        client.submit(new_request([5], SamplingParams(), time.monotonic(), 1))


async def test_a_client_that_leaves_takes_nothing_new(start: StartCluster) -> None:
    _, client = await start()
    stream = client.submit(requests(1)[0])
    client.leave()
    with pytest.raises(NotServing):
        client.submit(requests(1)[0])
    await check_answers([stream])
