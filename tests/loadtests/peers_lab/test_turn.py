"""A turn of a server: started, warmed up, measured, ended; and what goes wrong at each."""

import asyncio

import pytest

from loadtests.peers_lab.peer import Peer, PeerError
from loadtests.peers_lab.turn import Turn, take_turn
from tests.clients.ports import free_ports
from tests.loadtests.peers_lab.made_up import LOAD, PLAN
from tests.loadtests.peers_lab.tiny_peer import servers_at, tiny_peer
from tests.loadtests.scripted_server import ScriptedServer, chunk, usage

THREE_TOKENS = [chunk([1]), chunk([2]), chunk([3], finish="length"), usage(3), "[DONE]"]


async def turn_of(peer: Peer) -> Turn:
    return await take_turn(peer, 0, PLAN)


async def test_a_started_server_is_measured_and_gone_after() -> None:
    peer = tiny_peer()
    turn = await turn_of(peer)
    assert (turn.report.completed, turn.report.output_tokens) == (4, 12)
    assert turn.start_seconds is not None
    assert 0 < turn.start_seconds < 30
    assert turn.memory_bytes is not None
    assert turn.memory_bytes > 2**20
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection("127.0.0.1", int(peer.command[3]))


async def test_of_a_running_server_neither_start_nor_memory_is_known() -> None:
    async with ScriptedServer(THREE_TOKENS).running() as server:
        turn = await turn_of(Peer("there", server.url))
    assert turn.report.completed == 4
    assert len(server.bodies) == LOAD.concurrency + LOAD.requests
    assert (turn.start_seconds, turn.memory_bytes) == (None, None)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--fail", "no memory left"), r"tiny has ended with code 3:\nno memory left"),
        (("--models-status=401",), r"tiny: /v1/models: HTTP 401"),
    ],
)
async def test_a_server_that_does_not_come_up_says_why(flags: tuple[str, ...], words: str) -> None:
    peer = tiny_peer(*flags)
    with pytest.raises(PeerError, match=words):
        await turn_of(peer)
    assert not servers_at(int(peer.command[3]))


async def test_a_server_that_takes_too_long_is_ended() -> None:
    peer = tiny_peer("--models-status=503")
    with pytest.raises(PeerError, match=r"tiny does not answer within 0\.3 s: "):
        await take_turn(peer, 0, PLAN._replace(start_seconds=0.3))
    assert not servers_at(int(peer.command[3]))


async def test_a_server_at_a_taken_address_is_not_started() -> None:
    async with ScriptedServer(THREE_TOKENS).running() as server:
        with pytest.raises(PeerError, match="is answered before the server is started"):
            await turn_of(tiny_peer(port=server.port))


async def test_a_server_that_is_not_there_is_named_with_its_address() -> None:
    [port] = free_ports(1)
    with pytest.raises(PeerError, match=rf"gone: http://127.0.0.1:{port}: .*Connect call failed"):
        await turn_of(Peer("gone", f"http://127.0.0.1:{port}"))


async def test_a_server_that_refuses_completions_is_named_with_its_words() -> None:
    body = '{"error": {"message": "no such model", "code": "not_found"}}'
    async with ScriptedServer([body], status=404).running() as server:
        with pytest.raises(PeerError, match="poor: warm-up: HTTP 404 not_found: no such model"):
            await turn_of(Peer("poor", server.url))
