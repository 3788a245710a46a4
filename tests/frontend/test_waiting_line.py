from cluster.wire.sampling import SamplingParams
from frontend.in_flight import InFlight
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream
from frontend.waiting_line import WaitingLine


def in_flight(name: str) -> InFlight:
    request = GenerationRequest(name, [1], [], SamplingParams(), arrived_at=0.0)
    return InFlight(RequestStream(request, lambda stream, reason: None))


def names(line: WaitingLine) -> list[str]:
    return [waiting.request.request_id for waiting in line]


def test_those_that_have_begun_go_before_all_others_in_their_own_order() -> None:
    line = WaitingLine()
    for name in "ab":
        line.join(in_flight(name))
    line.join_first([in_flight("x"), in_flight("y")])
    assert names(line) == ["x", "y", "a", "b"]


def test_who_cannot_be_served_holds_up_nobody_and_keeps_its_place() -> None:
    line = WaitingLine()
    for name in "abc":
        line.join(in_flight(name))
    line.serve(lambda waiting: waiting.request.request_id != "b")
    assert names(line) == ["b"]


def test_leaving_twice_is_harmless() -> None:
    line, waiting = WaitingLine(), in_flight("a")
    line.join(waiting)
    line.leave(waiting)
    line.leave(waiting)
    assert len(line) == 0
