"""Waiting for a server that has just been started."""

import asyncio
import re
import time

from loadtests.client import StreamingClient
from loadtests.http_client import GET_SECONDS, BrokenConnection, HttpClient
from loadtests.peers_lab.peer import Peer, PeerError
from loadtests.peers_lab.started_server import StartedServer
from loadtests.workload import token_completion

POLL_SECONDS = 0.05
PROMPT = (1, 2, 3)
_REFUSED = re.compile(r"\bHTTP 4(?!29)\d\d\b")
"""What no waiting will mend."""


async def refuse_if_answered(peer: Peer, http: HttpClient) -> None:
    """Raises PeerError if a server is there already: it would be measured in place of the new one."""
    try:
        await http.get("/v1/models")
    except BrokenConnection:
        return
    raise PeerError(f"{peer.name}: {peer.url} is answered before the server is started")


async def seconds_to_first_answer(
    peer: Peer, server: StartedServer, http: HttpClient, most_seconds: float
) -> float:
    """Wait until the server lists its models and has made a token; seconds from its start to then.

    A list alone proves nothing: some servers have it before their model is loaded. Raises PeerError
    if the server ends, refuses, or takes longer than `most_seconds`.
    """
    while (trouble := await _trouble(http)) is not None:
        server.check_running()
        if _REFUSED.search(trouble):
            raise PeerError(f"{peer.name}: {trouble}")
        if time.monotonic() - server.started_at >= most_seconds:
            raise PeerError(
                f"{peer.name} does not answer within {most_seconds:g} s: {trouble}\n"
                f"{server.last_words()}"
            )
        await asyncio.sleep(POLL_SECONDS)
    return time.monotonic() - server.started_at


async def _trouble(http: HttpClient) -> str | None:
    """Why the server does not answer yet; None if it does."""
    client = StreamingClient(http, GET_SECONDS)
    try:
        model = await client.first_model()
    except BrokenConnection as error:
        return str(error)
    record = await client.complete(token_completion(model, PROMPT, 1), time.monotonic())
    if record.error_kind is None:
        return None
    return f"{record.error_kind}: {record.error_detail}"
