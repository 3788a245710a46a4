"""One turn: one server under the load of one round."""

import asyncio
from typing import NamedTuple

import msgspec

from loadtests.client import StreamingClient
from loadtests.driver import Driver
from loadtests.http_client import BrokenConnection, HttpClient
from loadtests.peers_lab.first_answer import refuse_if_answered, seconds_to_first_answer
from loadtests.peers_lab.load import PeerLoad
from loadtests.peers_lab.peer import Peer, PeerError
from loadtests.peers_lab.started_server import StartedServer
from loadtests.progress_line import progress_line
from loadtests.report import Report, make_report


class TurnPlan(NamedTuple):
    """What is the same for all turns."""

    load: PeerLoad
    api_key: str | None
    timeout_seconds: float
    """Longest that an answer may take."""
    start_seconds: float
    """Longest that a server may take to its first answer."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What one server did in one round."""

    server: str
    round: int
    report: Report
    start_seconds: float | None = None
    """From its command to its first token; None if it was running."""
    memory_bytes: int | None = None
    """Of all its processes, after the load; None if they are not known."""


async def take_turn(peer: Peer, number: int, plan: TurnPlan) -> Turn:
    """Start the server if it has a command, warm it up, send the round's load, end it.

    Raises PeerError if it cannot be started or warmed up, or gives no whole answer; single failed
    requests are in the report.
    """
    http = HttpClient(peer.url, plan.api_key)
    if not peer.command:
        report = await _measure(peer, http, number, plan)
        return Turn(server=peer.name, round=number, report=report)
    await refuse_if_answered(peer, http)
    server = StartedServer(peer)
    try:
        start_seconds = await seconds_to_first_answer(peer, server, http, plan.start_seconds)
        try:
            report = await _measure(peer, http, number, plan)
        except PeerError:
            server.check_running()  # its own last words say more
            raise
        return Turn(
            server=peer.name,
            round=number,
            report=report,
            start_seconds=start_seconds,
            memory_bytes=await asyncio.to_thread(server.memory_bytes),
        )
    finally:
        await asyncio.to_thread(server.end)


async def _measure(peer: Peer, http: HttpClient, number: int, plan: TurnPlan) -> Report:
    client = StreamingClient(http, plan.timeout_seconds)
    try:
        model = await client.first_model()
    except BrokenConnection as error:
        raise PeerError(f"{peer.name}: {peer.url}: {error}") from error
    await _warm_up(peer, client, model, number, plan.load)
    driver = Driver(client.complete, plan.load.asks(model, number))
    async with progress_line(driver.progress):
        await driver.closed_loop(plan.load.concurrency)
    report = make_report(
        driver.progress.records,
        url=peer.url,
        model=model,
        load=plan.load.in_words,
        counted=None,
    )
    if not report.completed:
        raise PeerError(f"{peer.name}: no request had a whole answer: {errors_in_words(report)}")
    return report


async def _warm_up(
    peer: Peer, client: StreamingClient, model: str, number: int, load: PeerLoad
) -> None:
    driver = Driver(client.complete, load.warm_up(model, number))
    await driver.closed_loop(load.concurrency)
    for record in driver.progress.records:
        if record.error_kind is not None:
            raise PeerError(f"{peer.name}: warm-up: {record.error_kind}: {record.error_detail}")


def errors_in_words(report: Report) -> str:
    """The errors of a report, each kind with an example; empty if there are none."""
    return "; ".join(
        f"{number} × {kind}: {report.error_examples[kind]}"
        for kind, number in report.errors.items()
    )
