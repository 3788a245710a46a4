import pytest

from cluster.wire.messages import Conviction
from cluster.wire.sampling import SamplingParams
from frontend.convictions import MAX_CONVICTIONS, Convictions, fingerprint
from frontend.request import GenerationRequest


def request(
    *prompt: int, salt: str = "", request_id: str = "r", **sampling: float
) -> GenerationRequest:
    params = SamplingParams(**sampling)  # type: ignore[arg-type] # its own fields
    return GenerationRequest(request_id, list(prompt), [], params, 0.0, cache_salt=salt)


def test_the_fingerprint_is_of_all_that_is_computed_but_the_seed_and_the_choice() -> None:
    same = {
        fingerprint(request(1, 2, request_id="a", seed=1)),
        fingerprint(request(1, 2, request_id="b", seed=2, choice=3)),
    }
    assert len(same) == 1
    others = [
        request(1, 2, 3), request(2, 1), request(1, 2, salt="x"), request(1, 2, temperature=0.5),
        request(1, 2, max_tokens=3), request(0x10001), request(1, 1 << 16),
    ]  # fmt: skip
    assert len({*same, *map(fingerprint, others)}) == 1 + len(others)


def test_a_conviction_holds_for_its_time_and_is_told_meanwhile() -> None:
    convictions = Convictions(timeout_seconds=10.0)
    convictions.convict(request(1), [(0, 1), (1, 1)], now=100.0)
    assert convictions.hold_against(request(1, seed=7))
    assert not convictions.hold_against(request(2))
    assert convictions.own(104.0) == [Conviction(fingerprint(request(1)), 6.0, [(0, 1), (1, 1)])]
    convictions.expire(109.0)
    assert len(convictions) == 1
    convictions.expire(110.0)
    assert not convictions.hold_against(request(1))
    assert convictions.own(110.0) == []


def test_the_convictions_of_others_hold_too_but_are_not_told_on() -> None:
    convictions = Convictions(timeout_seconds=10.0)
    told = [Conviction(fingerprint(request(1)), 5.0, [(0, 3)])]
    assert convictions.merge(told, now=0.0) == {(0, 3)}
    assert convictions.merge(told, now=1.0) == set()
    assert convictions.hold_against(request(1))
    assert convictions.own(1.0) == []


@pytest.mark.parametrize("seconds_left", [0.0, -1.0, float("nan")])
def test_a_conviction_that_is_over_is_not_learned(seconds_left: float) -> None:
    convictions = Convictions(timeout_seconds=10.0)
    convictions.merge([Conviction(b"x", seconds_left)], now=0.0)
    assert len(convictions) == 0


def test_of_too_many_the_newest_are_kept() -> None:
    convictions = Convictions(timeout_seconds=10.0)
    for number in range(MAX_CONVICTIONS + 5):
        convictions.convict(request(number), [], now=float(number))
    assert len(convictions) == MAX_CONVICTIONS
    assert not convictions.hold_against(request(4))
    assert convictions.hold_against(request(5))
