"""Whose turn it is at the threads that tokenize."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.errors import Overloaded
from frontend import worker_threads
from frontend.round_robin import RoundRobin
from frontend.worker_threads import WorkerThreads


@pytest.fixture
def threads() -> Iterator[WorkerThreads]:
    made = WorkerThreads(1, "test")
    yield made
    made.close()


class Gate:
    """Holds the one thread until it is opened, and keeps the order in which others got it."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.served: list[str] = []

    async def close(self, threads: WorkerThreads) -> "asyncio.Task[bool]":
        """Let the thread wait; its job ends when the gate is opened."""
        job = asyncio.create_task(threads.run(self.is_open.wait, 30.0))
        await asyncio.sleep(0)
        return job

    async def ask(self, threads: WorkerThreads, tenant: str, name: str) -> "asyncio.Task[None]":
        """A job that waits behind the gate."""
        job = asyncio.create_task(threads.run_for(tenant, self.served.append, name))
        await asyncio.sleep(0)
        return job


async def test_a_job_gives_its_result_or_its_error(threads: WorkerThreads) -> None:
    assert await threads.run(int, "7") == 7
    with pytest.raises(ValueError, match="invalid literal"):
        await threads.run_for("tenant", int, "seven")
    assert await threads.run(int, "8") == 8


async def test_one_that_comes_anew_waits_for_one_job_of_a_flood(threads: WorkerThreads) -> None:
    gate = Gate()
    jobs = [await gate.close(threads)]
    jobs += [await gate.ask(threads, "loud", f"loud {number}") for number in range(100)]  # type: ignore[misc]  # results differ
    jobs.append(await gate.ask(threads, "quiet", "quiet"))  # type: ignore[arg-type]
    gate.is_open.set()
    await asyncio.gather(*jobs)
    assert gate.served.index("quiet") <= 1
    assert [name for name in gate.served if name != "quiet"] == [f"loud {n}" for n in range(100)]


async def test_threads_have_jobs_ahead_while_the_event_loop_is_busy() -> None:
    made = WorkerThreads(1, "ahead", num_ahead=2)
    done: list[int] = []
    last = threading.Event()
    jobs = [asyncio.create_task(made.run(done.append, number)) for number in range(2)]
    jobs.append(asyncio.create_task(made.run(last.set)))
    await asyncio.sleep(0)
    assert last.wait(10)  # the loop stands still meanwhile
    assert done == [0, 1]
    await asyncio.gather(*jobs)
    made.close()


async def test_a_client_that_leaves_takes_nobodys_turn(threads: WorkerThreads) -> None:
    gate = Gate()
    held = await gate.close(threads)
    leaving = await gate.ask(threads, "a", "leaves")
    staying = await gate.ask(threads, "b", "stays")
    leaving.cancel()
    gate.is_open.set()
    await asyncio.gather(held, staying)
    assert gate.served == ["stays"]
    assert await threads.run(int, "7") == 7


async def test_a_client_that_leaves_when_it_is_its_turn_passes_the_thread_on(
    threads: WorkerThreads,
) -> None:
    gate = Gate()
    held = await gate.close(threads)
    leaving = await gate.ask(threads, "a", "leaves")
    staying = await gate.ask(threads, "b", "stays")
    threads._pass_on()  # as a thread does that becomes free: it is the first one's now
    leaving.cancel()
    gate.is_open.set()
    await asyncio.gather(held, staying)
    assert gate.served == ["stays"]


async def test_a_flood_is_refused_before_it_takes_the_places_of_others(
    threads: WorkerThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_threads, "MAX_WAITING", 10)
    gate = Gate()
    held = await gate.close(threads)
    loud = [await gate.ask(threads, "loud", str(number)) for number in range(20)]
    quiet = await gate.ask(threads, "quiet", "quiet")
    gate.is_open.set()
    await asyncio.gather(held, quiet)
    answers = await asyncio.gather(*loud, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, Overloaded)]
    assert len(refused) == 11
    assert {error.retry_after_seconds for error in refused} == {1}


async def test_what_waits_when_the_threads_end_is_dropped(threads: WorkerThreads) -> None:
    gate = Gate()
    held = await gate.close(threads)
    waiting = await gate.ask(threads, "a", "never")
    gate.is_open.set()
    threads.close()
    await held
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert gate.served == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60))
def test_between_two_turns_of_a_waiting_tenant_every_other_has_one_at_most(
    events: list[tuple[str, bool]],
) -> None:
    line: RoundRobin[tuple[str, int]] = RoundRobin()
    since_turn: dict[str, list[str]] = {}
    for number, (tenant, joins) in enumerate(events):
        if joins:
            line.join(tenant, (tenant, number))
            since_turn.setdefault(tenant, [])
            continue
        item = line.next()
        assert (item is None) == (not since_turn)
        if item is None:
            continue
        for waiting, others in since_turn.items():
            if waiting != item[0]:
                others.append(item[0])
                assert len(set(others)) == len(others), f"{waiting} waits for {others}"
        since_turn[item[0]] = []
        if not line.num_of(item[0]):
            del since_turn[item[0]]
    assert len(line) == sum(line.num_of(tenant) for tenant in "abc")
