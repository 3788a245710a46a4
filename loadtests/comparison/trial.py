"""One trial: a cluster with one policy under one load, from its start to its end."""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from typing import NamedTuple

import msgspec
import psutil

from loadtests.client import StreamingClient
from loadtests.comparison.absence import run_with_absence
from loadtests.comparison.conversation import VOCABULARY_SIZE, Conversation, ConversationShape
from loadtests.comparison.conversation_driver import ConversationDriver
from loadtests.comparison.load_plan import LoadPlan
from loadtests.comparison.server_state import ServerState
from loadtests.drills.cluster import Cluster
from loadtests.drills.drill import DrillError
from loadtests.driver import Driver
from loadtests.http_client import HttpClient
from loadtests.progress_line import progress_line
from loadtests.record import RequestRecord
from loadtests.report import Report, make_report
from loadtests.server_counters import read_counters
from loadtests.workload import random_token_prompts, token_completion

TIMEOUT_SECONDS = 120.0
WARM_UP_REQUESTS_PER_ENGINE = 8
WARM_UP_CONCURRENCY_PER_ENGINE = 2
WARM_UP_SEED = 1 << 20


class ClusterSetup(NamedTuple):
    """How the cluster of a trial is started."""

    engines: int
    frontends: int
    flags: tuple[str, ...]

    def start(self, policy: str) -> Cluster:
        """A cluster that routes by this policy; not ready yet."""
        return Cluster(
            f"--dp={self.engines}",
            f"--frontends={self.frontends}",
            f"--routing={policy}",
            *self.flags,
        )


class TrialPlan(NamedTuple):
    """What is to be measured."""

    load: LoadPlan
    policy: str
    round: int
    conversations: Sequence[Conversation]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What one policy did with one round of a load."""

    load: str
    policy: str
    round: int
    report: Report
    hit_share: float
    """Of the prompt tokens that engines looked up, those that their caches held."""
    engine_requests: list[int]
    """Requests sent to each engine, by rank."""
    processor_share: float
    """Of the machine's processor time, what the cluster's processes took."""
    goodput_lost: float | None = None
    """Share of good answers lost while the coordinator was away; None where it stayed."""


def run_trial(setup: ClusterSetup, plan: TrialPlan) -> Trial:
    """Start a cluster, warm it up, hold the conversations, end it.

    Raises DrillError if the cluster does not come up, cannot be warmed up or leaves a process
    behind, BrokenConnection if it does not answer; failed requests are in the report.
    """
    cluster = setup.start(plan.policy)
    try:
        cluster.wait_until_ready()
        return asyncio.run(_measure(cluster, setup.engines, plan))
    finally:
        cluster.close()


async def _measure(cluster: Cluster, num_engines: int, plan: TrialPlan) -> Trial:
    http = HttpClient(cluster.url)
    streaming = StreamingClient(http, TIMEOUT_SECONDS)
    model, shape = await streaming.first_model(), plan.load.shape
    await _warm_up(streaming, model, num_engines, shape)

    def ask(prompt: list[int], due_at: float) -> Awaitable[RequestRecord]:
        return streaming.complete(token_completion(model, prompt, shape.answer_tokens), due_at)

    driver = ConversationDriver(ask, plan.conversations)
    counted_before = await read_counters(http)
    before = await asyncio.to_thread(ServerState.of, cluster, num_engines)
    began_at = time.monotonic()
    async with progress_line(driver.progress):
        goodput_lost = await _run(driver, cluster, plan)
    seconds = time.monotonic() - began_at
    added = (await asyncio.to_thread(ServerState.of, cluster, num_engines)).since(before)
    counted = await read_counters(http)
    report = make_report(
        driver.progress.records,
        url=cluster.url,
        model=model,
        load=plan.load.meaning,
        counted=counted.since(counted_before) if counted and counted_before else None,
    )
    return Trial(
        load=plan.load.name,
        policy=plan.policy,
        round=plan.round,
        report=report,
        hit_share=added.hit_share,
        engine_requests=[round(number) for number in added.engine_requests],
        processor_share=added.processor_seconds / (seconds * psutil.cpu_count()),
        goodput_lost=goodput_lost,
    )


async def _warm_up(
    client: StreamingClient, model: str, num_engines: int, shape: ConversationShape
) -> None:
    """Let every engine measure its speeds first: no policy is judged by its first guesses."""
    asks = random_token_prompts(
        model,
        num_engines * WARM_UP_REQUESTS_PER_ENGINE,
        input_tokens=shape.question_tokens,
        output_tokens=shape.answer_tokens,
        prefix_share=0.0,
        vocabulary_size=VOCABULARY_SIZE,
        seed=WARM_UP_SEED,
    )
    driver = Driver(client.complete, asks)
    await driver.closed_loop(num_engines * WARM_UP_CONCURRENCY_PER_ENGINE)
    failed = [record for record in driver.progress.records if record.error_kind is not None]
    if failed:
        raise DrillError(f"warm-up: {failed[0].error_kind}: {failed[0].error_detail}")


async def _run(driver: ConversationDriver, cluster: Cluster, plan: TrialPlan) -> float | None:
    """Hold the conversations; what an absence of the coordinator cost, if there is one."""
    if plan.load.coordinator_is_away:
        last_start_seconds = plan.conversations[-1].starts_at_seconds
        return await run_with_absence(driver, cluster, last_start_seconds)
    await driver.run()
    return None
