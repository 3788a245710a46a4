"""A simulated frontend: whom it sends where, and whom it lets wait."""

import random

import pytest

from cluster.wire.messages import BlockEvents, LoadReport
from frontend.balancer import Balancer
from loadtests.simulation.cost_model import CostModel
from loadtests.simulation.engine_process import EngineProcess
from loadtests.simulation.engine_request import EngineRequest
from loadtests.simulation.frontend_model import FrontendModel
from loadtests.simulation.outcome import Tally
from loadtests.simulation.request import ClientRequest

COST = CostModel(max_num_seqs=4, block_size=16)


class Sender:
    """Remembers what is sent, in order."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, EngineRequest]] = []

    def __call__(self, rank: int, request: EngineRequest) -> None:
        self.sent.append((rank, request))

    @property
    def names(self) -> list[str]:
        return [request.client.request_id for _, request in self.sent]

    @property
    def ranks(self) -> list[int]:
        return [rank for rank, _ in self.sent]


def client_request(name: str, num_blocks: int = 0, session: str = "") -> ClientRequest:
    hashes = tuple(f"{name}{index}".encode() for index in range(num_blocks))
    return ClientRequest(
        request_id=name, arrived_at=0.0, prompt_tokens=16 * num_blocks + 100, output_tokens=9,
        hashes=hashes, num_prompt_hashes=num_blocks, session=session,
    )  # fmt: skip


def report_without_load(rank: int, ended: EngineRequest) -> LoadReport:
    """What an engine says that has served this request, and has no other."""
    engine = EngineProcess(rank, 1, COST, num_engines=2)
    engine.receive(ended)
    while engine.begin_step(0.0) is not None:
        engine.end_step(0.0)
    engine.report(0.0)  # the one that `a_frontend` has already
    return engine.report(0.1)


def a_frontend(
    send: Sender, engines: int, policy: str = "marginal-cost", seed: int = 0
) -> FrontendModel:
    frontend = FrontendModel(0, 1, Balancer(policy, random.Random(seed)), send, Tally())
    for rank in range(engines):
        engine = EngineProcess(rank, 1, COST, num_engines=2)
        frontend.welcome(engine.hello, 0.0)
        frontend.accept(engine.report(0.0), 0.0)
    return frontend


def test_a_request_waits_until_an_engine_has_room() -> None:
    send = Sender()
    frontend = a_frontend(send, engines=1)
    for name in "abcdefgh":
        frontend.submit(client_request(name), 0.0)
    sent = len(send.sent)
    assert 0 < sent < 8
    (_, first) = send.sent[0]
    frontend.on_began(0, first.client)
    frontend.on_ended(0, first.client)
    frontend.accept(report_without_load(0, send.sent[-1][1]), 0.1)
    frontend.serve(0.1)
    assert send.names == sorted(send.names)
    assert len(send.sent) > sent


def test_what_a_dead_engine_had_goes_elsewhere_with_its_tokens() -> None:
    send = Sender()
    frontend = a_frontend(send, engines=2, policy="round-robin")
    requests = [client_request(name) for name in "abc"]
    for request in requests:
        frontend.submit(request, 0.0)
    dead = send.ranks[0]
    begun = send.sent[0][1].client
    frontend.on_began(dead, begun)
    begun.num_outputs = 5
    number = len(send.sent)
    lost = frontend.lose(dead, 1.0)
    again = send.sent[number:]
    assert [request.client for _, request in again] == list(lost)
    assert {rank for rank, _ in again} == {1 - dead}
    assert again[0][1].context_tokens == 105
    assert again[0][1].precedence < again[-1][1].precedence


def test_a_request_goes_where_its_blocks_are() -> None:
    send = Sender()
    frontend = a_frontend(send, engines=4)
    request = client_request("x", num_blocks=50)
    frontend.apply(BlockEvents(2, 1, 1, list(request.hashes), []))
    frontend.submit(request, 0.0)
    assert send.ranks == [2]


@pytest.mark.parametrize("seed", range(4))
def test_a_session_goes_back_where_it_was(seed: int) -> None:
    send = Sender()
    frontend = a_frontend(send, engines=8, seed=seed)
    frontend.submit(client_request("first", num_blocks=50, session="s"), 0.0)
    rank, first = send.sent[0]
    frontend.on_began(rank, first.client)
    frontend.on_ended(rank, first.client)
    frontend.accept(report_without_load(rank, first), 0.1)
    frontend.submit(client_request("with other blocks", num_blocks=50, session="s"), 0.1)
    assert send.ranks == [rank, rank]


def test_news_of_an_engine_that_is_held_dead_is_dropped() -> None:
    send = Sender()
    frontend = a_frontend(send, engines=2)
    frontend.lose(0, 1.0)
    frontend.accept(EngineProcess(0, 1, COST, num_engines=2).report(1.0), 1.0)
    frontend.apply(BlockEvents(0, 1, 1, [b"x"], []))
    frontend.submit(client_request("a"), 1.0)
    assert send.ranks == [1]
    assert frontend.books.keys() == {1}
