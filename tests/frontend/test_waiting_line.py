"""The order in which those that wait are sent, and who may wait."""

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.config import FrontendConfig
from cluster.errors import Overloaded
from frontend.backlog import Backlog
from frontend.fair_rotation import cost_tokens
from frontend.in_flight import InFlight
from frontend.tenant_line import RETRIES_PER_OFFER, TRIES_PER_OFFER
from frontend.waiting_line import WaitingLine
from tests.support.waiting_requests import waiting_request

BUSY = Backlog(num_engines=2, uncomputed_tokens=1000, prefill_tokens_per_second=1000.0)


def new_line(**settings: Any) -> WaitingLine:
    return WaitingLine(FrontendConfig(**settings))


def join(line: WaitingLine, *requests: InFlight) -> None:
    for request in requests:
        line.join(request)


def serve(
    line: WaitingLine, number: int, may_go: Callable[[InFlight], bool] = lambda _: True
) -> list[str]:
    """The names of those that are sent while there is room for `number`."""
    sent: list[str] = []

    def dispatch(in_flight: InFlight) -> bool:
        if not may_go(in_flight):
            return False
        sent.append(in_flight.request.request_id)
        return True

    line.serve(dispatch, lambda: len(sent) < number)
    return sent


def fill(line: WaitingLine, number: int, **fields: Any) -> None:
    for index in range(len(line), len(line) + number):
        line.join(waiting_request(f"{fields.get('tenant', '')}{index}", **fields))


# ── order ──


def test_those_that_have_begun_go_before_all_others_in_their_own_order() -> None:
    line = new_line()
    join(line, waiting_request("a", priority=-5), waiting_request("b"))
    line.join_first([waiting_request("x"), waiting_request("y")])
    assert serve(line, 9) == ["x", "y", "a", "b"]
    assert (len(line), line.num_tokens) == (0, 0)


def test_a_lower_priority_number_goes_first() -> None:
    line = new_line()
    join(line, *(waiting_request(str(p), priority=p) for p in (3, -1, 2)))
    assert serve(line, 9) == ["-1", "2", "3"]


def test_nobody_is_offered_while_there_is_no_room() -> None:
    line = new_line()
    fill(line, 3)
    assert serve(line, 0) == []
    assert serve(line, 2) == ["0", "1"]


def test_those_that_have_begun_are_offered_even_while_there_is_no_room_for_what_is_new() -> None:
    line = new_line()
    join(line, waiting_request("new"))
    line.join_first([waiting_request("begun")])
    assert serve(line, 0) == ["begun"]


def test_an_offer_that_fails_costs_nobody_its_turn() -> None:
    line = new_line()
    join(line, *(waiting_request(f"{t}{n}", tenant=t) for n in range(2) for t in "ab"))

    def fail(_: InFlight) -> bool:
        raise ValueError("a bug")

    for _ in range(3):
        with pytest.raises(ValueError, match="a bug"):
            line.serve(fail, lambda: True)
    assert sorted(serve(line, 9)) == ["a0", "a1", "b0", "b1"]
    assert len(line) == 0


def test_who_cannot_be_served_holds_up_nobody_and_goes_as_soon_as_it_can() -> None:
    line = new_line()
    join(line, *(waiting_request(name) for name in "abc"))
    assert serve(line, 9, lambda waiting: waiting.request.request_id != "b") == ["a", "c"]
    assert serve(line, 9) == ["b"]


def test_many_that_cannot_be_served_hold_up_others_for_a_few_turns_only() -> None:
    line = new_line()
    fill(line, 3 * TRIES_PER_OFFER, tenant="stuck")
    line.join(waiting_request("free", tenant="stuck"))
    turns = [serve(line, 9, lambda waiting: waiting.request.request_id == "free") for _ in range(4)]
    assert turns == [[], [], [], ["free"]]


def test_a_serve_tries_few_however_many_cannot_be_served() -> None:
    line = new_line()
    fill(line, 1000)
    tries = 0

    def refuse(_: InFlight) -> bool:
        nonlocal tries
        tries += 1
        return False

    for _ in range(100):
        tries = 0
        line.serve(refuse, lambda: True)
        assert tries <= TRIES_PER_OFFER + RETRIES_PER_OFFER


def test_requests_pinned_to_an_engine_that_is_full_cost_one_try_and_keep_their_order() -> None:
    line = new_line()
    fill(line, 50, tenant="pinned", pinned_rank=0)
    join(line, waiting_request("free", tenant="pinned", queued_at=1.0))
    assert serve(line, 9, lambda waiting: waiting.request.pinned_rank is None) == ["free"]
    assert serve(line, 3) == ["pinned0", "pinned1", "pinned2"]


def test_leaving_twice_is_harmless() -> None:
    line, waiting = new_line(), waiting_request("a")
    line.join(waiting)
    line.leave(waiting)
    line.leave(waiting)
    assert len(line) == 0
    assert serve(line, 1) == []


def test_a_request_that_is_ended_while_it_is_offered_is_gone() -> None:
    line = new_line()
    fill(line, 3)

    def end(in_flight: InFlight) -> bool:
        line.leave(in_flight)
        return False

    line.serve(end, lambda: True)
    assert len(line) == 0


def test_those_that_wait_too_long_are_found() -> None:
    line = new_line(queue_timeout=10.0)
    join(line, *(waiting_request(str(t), queued_at=float(t)) for t in range(4)))
    assert [waiting.request.request_id for waiting in line.overdue(11.5)] == ["0", "1"]


# ── shares ──


def test_one_that_comes_anew_is_next_however_many_requests_of_another_wait() -> None:
    line = new_line()
    fill(line, 1000, tenant="loud")
    serve(line, 100)
    join(line, waiting_request("quiet", tenant="quiet"))
    assert "quiet" in serve(line, 2)


def test_without_room_only_tenants_that_may_overtake_are_offered() -> None:
    line = new_line()
    fill(line, 50, tenant="loud")
    join(line, waiting_request("quiet", tenant="quiet"))
    offered: list[str] = []

    def take(in_flight: InFlight) -> bool:
        offered.append(in_flight.request.request_id)
        return True

    line.serve(take, lambda: False, lambda tenant: tenant == "quiet")
    assert offered == ["quiet"]
    assert serve(line, 2) == ["loud0", "loud1"]  # who was passed over keeps place and turn


def test_long_requests_count_for_more_than_short_ones() -> None:
    line = new_line()
    fill(line, 100, tenant="long", prompt_tokens=1000)
    fill(line, 100, tenant="short", prompt_tokens=100 - 16)
    sent = serve(line, 55)
    assert sum(name.startswith("long") for name in sent) in (4, 5, 6)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 2000), st.integers(1, 600)),
        min_size=2, max_size=60,
    ),
    st.integers(1, 60),
)  # fmt: skip
def test_tenants_that_wait_get_equal_shares_but_for_one_request_of_each(
    asked: list[tuple[int, int, int]], number: int
) -> None:
    line = new_line()
    waiting = {
        str(index): waiting_request(str(index), f"tenant {tenant}", prompt, output)
        for index, (tenant, prompt, output) in enumerate(asked)
    }
    join(line, *waiting.values())
    shares: defaultdict[str, int] = defaultdict(int)
    for name in serve(line, number):
        shares[waiting[name].request.tenant] += cost_tokens(waiting[name])
    largest = max(cost_tokens(request) for request in waiting.values())
    for tenant in {request.request.tenant for request in line}:
        assert shares[tenant] >= max(shares.values()) - 2 * largest


ACTIONS = st.one_of(
    st.tuples(
        st.just("join"), st.integers(0, 3), st.integers(-1, 1), st.sampled_from([None, 0, 1])
    ),
    st.tuples(st.just("join first"), st.integers(0, 3), st.integers(1, 3), st.none()),
    st.tuples(st.just("leave"), st.integers(0, 99), st.none(), st.none()),
    st.tuples(st.just("serve"), st.integers(0, 5), st.sampled_from([None, 0, 1]), st.booleans()),
)


@given(st.lists(ACTIONS, max_size=80))
def test_nobody_is_lost_or_sent_twice_and_each_tenant_keeps_its_order(
    actions: list[tuple[Any, ...]],
) -> None:
    line = new_line()
    waiting: dict[str, InFlight] = {}
    sent: list[InFlight] = []
    for number, (action, first, second, third) in enumerate(actions):
        if action == "join":
            request = waiting_request(
                f"{number:03}", str(first), 1 + first, priority=second, pinned_rank=third,
                queued_at=number,
            )  # fmt: skip
            waiting[request.request.request_id] = request
            line.join(request)
        elif action == "join first":
            names = [f"{number:03}-{i}" for i in range(second)]
            begun = [waiting_request(name, str(first), 3, queued_at=number) for name in names]
            waiting |= {request.request.request_id: request for request in begun}
            line.join_first(begun)
        elif action == "leave" and waiting:
            name = sorted(waiting)[first % len(waiting)]
            line.leave(waiting.pop(name))
        elif action == "serve":
            may_go = partial(is_not_pinned_to, second)
            names = serve(line, first, may_go)
            if second is None:  # nothing was held back, so order can be told
                check_order(line, [waiting[name] for name in names])
            sent += [waiting.pop(name) for name in names]
        assert {w.request.request_id for w in line} == waiting.keys()
        assert line.num_tokens == sum(w.num_context_tokens for w in waiting.values())
    names = serve(line, 1000)
    assert sorted(names) == sorted(waiting)
    assert (len(line), line.num_tokens) == (0, 0)
    assert line._cost_tokens.total() == 0
    assert not line._rotations
    assert not line._by_tenant


def is_not_pinned_to(full_rank: int | None, in_flight: InFlight) -> bool:
    return full_rank is None or in_flight.request.pinned_rank != full_rank


def check_order(line: WaitingLine, sent: list[InFlight]) -> None:
    """No request that still waits has come before one of the same tenant, priority and pin."""
    for left in line:
        for gone in sent:
            if "-" in gone.request.request_id:
                continue  # had begun
            assert "-" not in left.request.request_id, "one that has begun waits longer"
            same = (left.request.tenant, left.request.priority, left.request.pinned_rank) == (
                gone.request.tenant, gone.request.priority, gone.request.pinned_rank,
            )  # fmt: skip
            assert not same or gone.request.request_id < left.request.request_id
            assert gone.request.priority <= left.request.priority


# ── bounds ──


def refusal(
    line: WaitingLine, backlog: Backlog = BUSY, now: float = 0.0, **fields: Any
) -> Overloaded:
    with pytest.raises(Overloaded) as caught:
        line.check_room(waiting_request("new", **fields).request, now, backlog)
    assert caught.value.retry_after_seconds is not None
    assert caught.value.retry_after_seconds >= 1
    return caught.value


def test_one_more_than_may_wait_is_refused() -> None:
    line = new_line(max_queued_requests=3)
    fill(line, 2)
    line.check_room(waiting_request("new").request, 0.0, BUSY)
    fill(line, 1)
    error = refusal(line)
    assert (error.reason, "max_queued_requests is 3" in str(error)) == ("queue full", True)


def test_more_tokens_than_may_wait_are_refused_but_never_by_an_empty_line() -> None:
    line = new_line(max_queued_tokens=100)
    big = waiting_request("big", prompt_tokens=500)
    line.check_room(big.request, 0.0, BUSY)
    line.join(big)
    assert refusal(line).reason == "queue tokens"


def test_one_tenant_leaves_places_to_others() -> None:
    line = new_line(max_queued_requests=100)
    fill(line, 79, tenant="loud")
    line.check_room(waiting_request("n", "loud").request, 0.0, BUSY)
    fill(line, 6, tenant="loud")
    assert refusal(line, tenant="loud").reason == "queue full"
    line.check_room(waiting_request("q", "quiet").request, 0.0, BUSY)


def test_a_wait_that_would_be_too_long_is_refused() -> None:
    line = new_line(max_ttft=1.5)
    line.check_room(waiting_request("new", prompt_tokens=100).request, 0.0, BUSY)
    busier = BUSY._replace(uncomputed_tokens=4000)
    error = refusal(line, busier)
    assert (error.reason, error.retry_after_seconds) == ("max ttft", 3)
    assert "max_ttft is 1.5 s" in str(error)


def test_while_no_engine_is_ready_nothing_is_predicted() -> None:
    line = new_line(max_ttft=0.1, max_queued_requests=4)
    fill(line, 3)
    line.check_room(waiting_request("new").request, 0.0, Backlog())
    fill(line, 1)
    assert refusal(line, Backlog()).reason == "queue full"


def test_the_wait_in_line_is_predicted_by_what_leaves_it() -> None:
    line = new_line(max_ttft=5.0, max_queued_requests=10_000)
    fill(line, 1000, prompt_tokens=84)  # with 16 of output 100 tokens each
    idle = BUSY._replace(uncomputed_tokens=0)
    request = waiting_request("new", prompt_tokens=84).request
    for tenth in range(40):
        with suppress(Overloaded):
            line.check_room(request, tenth / 10, BUSY)
        serve(line, 4)  # 40 a second
    predicted = line.predict_ttft(request, idle)
    assert predicted is not None
    assert abs(predicted - len(line) / 40) < 3.0
    assert refusal(line, idle, 4.0, prompt_tokens=84).reason == "max ttft"


DECODING = Backlog(
    num_engines=2,
    prefill_tokens_per_second=20_000.0,
    num_frontends=2,
    decode_tokens_per_second=200.0,
)


def test_before_anything_has_left_the_line_the_wait_is_predicted_by_what_engines_decode() -> None:
    line = new_line(max_ttft=2.0)
    fill(line, 10, prompt_tokens=30, max_tokens=32)  # 320 tokens of answers at 100 a second
    predicted = line.predict_ttft(waiting_request("new").request, DECODING)
    assert predicted is not None
    assert 3.0 < predicted < 4.0
    assert refusal(line, DECODING).reason == "max ttft"


def test_what_waits_in_engines_is_part_of_the_wait() -> None:
    line = new_line()
    fill(line, 2, prompt_tokens=30, max_tokens=32)
    request = waiting_request("new").request
    fewer = line.predict_ttft(request, DECODING)
    more = line.predict_ttft(request, DECODING._replace(waiting_requests=8))
    assert fewer is not None
    assert more is not None
    assert 1.0 < more - fewer < 1.5  # four of them for each frontend


def test_requests_that_leave_together_are_no_speed() -> None:
    line = new_line(max_queued_requests=10_000)
    fill(line, 1000, prompt_tokens=84)
    idle = BUSY._replace(uncomputed_tokens=0)
    request = waiting_request("new", prompt_tokens=84).request
    for tenth in range(300):
        line.check_room(request, tenth / 10, BUSY)
        if tenth % 20 == 0:
            serve(line, 8)  # 4 a second
    predicted = line.predict_ttft(request, idle)
    assert predicted is not None
    assert predicted == pytest.approx(len(line) / 4, rel=0.3)


def test_a_tenant_with_nothing_in_line_is_predicted_no_wait_behind_a_flood() -> None:
    line = new_line(max_ttft=5.0)
    fill(line, 1000, tenant="loud", prompt_tokens=100)
    assert refusal(line, tenant="loud").reason == "max ttft"
    line.check_room(waiting_request("new", "quiet").request, 0.0, BUSY)
