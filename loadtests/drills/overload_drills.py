"""Drills of too much load: from everybody, and from one of several clients."""

import asyncio
import itertools
import random
import time

from loadtests.drills.bodies import Body, make_bodies
from loadtests.drills.drill import Drill
from loadtests.drills.faults import wait
from loadtests.drills.file_limit import raise_file_limit
from loadtests.drills.history import Exchange
from loadtests.drills.sender import Sender
from loadtests.drills.stage import Stage
from loadtests.drills.verdict import percentile

SLOW_ENGINES = ("--max-num-seqs=4", "--simulated-step-seconds=0.04")
"""So slow that the client, on the same machine, is not what is measured."""
OUTPUT_TOKENS = 32
FULL_CONCURRENCY = 12
"""Half as many again as run at once: the engines never run dry, and nobody waits for long."""
TTFT_LIMIT_SECONDS = 3.0
OVERLOAD_FACTOR = 10
LEAST_GOODPUT_SHARE = 0.8
REFUSAL_SECONDS = 0.05
RECOVERY_SECONDS = 5.0
WARM_UP_SECONDS = 2.0
TENANT_FACTOR = 1.5
TENANT_ENGINES = ("--max-num-seqs=16", "--simulated-step-seconds=0.04", "--simulated-request-seconds=0",
                  "--simulated-kv-token-seconds=0", "--simulated-prefill-rate=2000", "--no-enable-prefix-caching")  # fmt: skip
"""Their steps take the same time however many requests are in them, beside that of new prompts: what the
flood adds is waiting and its own prompts. No step is interrupted, so nobody can promise less than one
step more than alone."""
TENANT_ENGINE_NUMBERS = (2, 4)
LOUD_CLIENTS_PER_ENGINE = 40
LOUD_OUTPUT_TOKENS = 16
QUIET_CLIENTS = 2
"""As many as the places that each engine keeps from a flood, and far less than a fair share."""
QUIET_OUTPUT_TOKENS = 4
"""So few that there are many times to the first token in a minute."""
QUIET_EXTRA_SENTENCES = 60
"""Of a quiet prompt: computing it takes some steps' time, as that of a usual prompt does."""
LONGEST_PAUSE_SECONDS = 0.15
"""Between two questions of a quiet client. Without, it would ask whenever its own answer has ended, in
step with those of the flood that began together with it."""
LOUD_KINDS = ["sampled", "chat", "stop-string"]
"""Answers of several lengths: places come free all the time, not all at once."""
QUIET_KEY, LOUD_KEY = "quiet-tenant", "loud-tenant"


def good_tokens(exchanges: list[Exchange], start: float, end: float) -> float:
    """Tokens a second in a span of time, of requests whose first token came within the limit."""
    return sum(
        arrival.num_tokens
        for exchange in exchanges
        if (exchange.ttft_seconds or TTFT_LIMIT_SECONDS + 1) <= TTFT_LIMIT_SECONDS
        for arrival in exchange.arrivals
        if start <= arrival.at < end
    ) / (end - start)


async def overload(stage: Stage) -> None:
    """Ten times the rate that the cluster can serve, in an open loop."""
    raise_file_limit(4000)
    await stage.launch(*SLOW_ENGINES, "--max-queued-requests=60", "--max-ttft=2")
    seconds = stage.scaled(60, 10)
    async with stage.load(
        concurrency=FULL_CONCURRENCY, kinds=["greedy"], output_tokens=OUTPUT_TOKENS
    ) as load:
        await wait(WARM_UP_SECONDS)
        start = time.monotonic()
        await wait(max(8.0, seconds / 4))
        full = good_tokens(load.exchanges, start, time.monotonic())
    capacity = full / OUTPUT_TOKENS
    stage.figure("goodput at 100 % load", full, "tokens/s")
    stage.fault(f"{OVERLOAD_FACTOR} times the load")
    async with stage.load(
        rate=OVERLOAD_FACTOR * capacity, kinds=["greedy"], output_tokens=OUTPUT_TOKENS
    ) as load:
        await wait(WARM_UP_SECONDS)
        start = time.monotonic()
        await wait(seconds)
        end = time.monotonic()
        load.stop()
    stage.recovered("the load ends")
    goodput = good_tokens(load.exchanges, start, end)
    stage.figure("requests sent in it", len(load.exchanges))
    stage.figure("goodput in overload", goodput, "tokens/s")
    share = goodput / full
    stage.check("goodput in overload", share >= LEAST_GOODPUT_SHARE,
                f"{100 * share:.0f} %, at least {100 * LEAST_GOODPUT_SHARE:.0f} %")  # fmt: skip
    check_refusals(stage, load.exchanges)
    recovery = await time_until_served(stage)
    stage.check_at_most("a new request is served again after", recovery, RECOVERY_SECONDS, "s")
    await stage.settle(may_fail=lambda exchange: exchange.status == 429)


def check_refusals(stage: Stage, exchanges: list[Exchange]) -> None:
    """Every refusal is a quick 429 that says when to come again."""
    refused = [exchange for exchange in exchanges if exchange.failure]
    statuses = sorted({str(exchange.status) for exchange in refused})
    stage.figure("requests refused", len(refused))
    stage.check("refusals are 429", statuses == ["429"], ", ".join(statuses))
    polite = all("retry-after" in exchange.headers for exchange in refused)
    stage.check("with Retry-After", polite)
    times = [e.first_byte_at - e.sent_at for e in refused if e.first_byte_at is not None]
    stage.check_at_most("refused after, p99", percentile(times, 0.99), REFUSAL_SECONDS, "s")


async def time_until_served(stage: Stage) -> float:
    """Seconds until a fresh request has its first token within the limit."""
    began_at = time.monotonic()
    body = make_bodies(["greedy"], OUTPUT_TOKENS, variants=1)[0]
    while time.monotonic() - began_at < 10 * RECOVERY_SECONDS:
        exchange = await stage.ask(body)
        if exchange.is_whole and (exchange.ttft_seconds or 0.0) < TTFT_LIMIT_SECONDS / 3:
            break
        await asyncio.sleep(0.1)
    return time.monotonic() - began_at


async def noisy_tenant(stage: Stage) -> None:
    """One API key floods the cluster while another asks now and then."""
    for engines in TENANT_ENGINE_NUMBERS:
        await flood_beside_a_quiet_tenant(stage, engines)


async def flood_beside_a_quiet_tenant(stage: Stage, engines: int) -> None:
    """The quiet tenant's times to the first token, alone and beside the flood, on so many engines."""
    await stage.launch(
        *TENANT_ENGINES, f"--api-key={QUIET_KEY}", f"--api-key={LOUD_KEY}", engines=engines
    )
    seconds = stage.scaled(60, 10)
    bodies = await stage.expect_answers(quiet_bodies())
    quiet = stage.sender(QUIET_KEY)
    alone = await ask_steadily(quiet, bodies, seconds)
    stage.fault(f"the other tenant floods {engines} engines")
    async with stage.load(
        concurrency=LOUD_CLIENTS_PER_ENGINE * engines, kinds=LOUD_KINDS,
        output_tokens=LOUD_OUTPUT_TOKENS, api_key=LOUD_KEY,
    ) as load:  # fmt: skip
        await load.until_tokens(100 * engines)
        beside = await ask_steadily(quiet, bodies, seconds)
    stage.recovered("the flood ends")
    check_wait_beside_flood(stage, f"{engines} engines", alone, beside)
    await stage.settle()


def quiet_bodies() -> list[Body]:
    """Long questions that want short answers."""
    bodies = make_bodies(["greedy"], QUIET_OUTPUT_TOKENS)
    more = " Say what is known of it, and by whom." * QUIET_EXTRA_SENTENCES
    return [
        body._replace(fields={**body.fields, "prompt": body.fields["prompt"] + more})
        for body in bodies
    ]


def check_wait_beside_flood(
    stage: Stage, where: str, alone: list[float], beside: list[float]
) -> None:
    """The bare line: no allowance for an answer that is under way when the quiet tenant asks."""
    before, after = percentile(alone, 0.99), percentile(beside, 0.99)
    stage.figure(f"{where}: questions of the quiet tenant beside the flood", len(beside))
    stage.figure(f"{where}: its TTFT p99 alone", before, "s")
    stage.figure(f"{where}: its TTFT p50 beside the flood", percentile(beside, 0.5), "s")
    limit = TENANT_FACTOR * before
    stage.check_at_most(f"{where}: its TTFT p99 beside the flood", after, limit, "s")


async def ask_steadily(sender: Sender, bodies: list[Body], seconds: float) -> list[float]:
    """A few requests at a time for a while; their times to the first token."""
    times: list[float] = []
    source, pauses = itertools.cycle(bodies), random.Random(1)
    deadline = time.monotonic() + seconds

    async def one_client() -> None:
        while time.monotonic() < deadline:
            body = next(source)
            exchange = await sender.send(body.kind, body.path, body.fields)
            times.append(exchange.ttft_seconds or seconds)
            await asyncio.sleep(pauses.uniform(0.0, LONGEST_PAUSE_SECONDS))

    await asyncio.gather(*(one_client() for _ in range(QUIET_CLIENTS)))
    return times


DRILLS = (
    Drill(
        "overload",
        "Ten times the load for a minute: goodput stays at 80 % of the best, refusals are 429 within "
        "50 ms, and it is over within 5 s.",
        overload,
        harmless=True,
        seconds=120,
    ),
    Drill(
        "noisy-tenant",
        "One API key floods 2 engines, then 4: another's TTFT p99 stays within 1.5 times of alone.",
        noisy_tenant,
        harmless=True,
        seconds=320,
    ),
)
