"""Convictions of all frontends, for as long as they hold."""

import math

from cluster.wire.messages import Conviction
from coordinator.convictions import MAX_CONVICTIONS, Convictions


def test_the_longest_of_several_counts_and_runs_out() -> None:
    convictions = Convictions()
    assert convictions.merge([Conviction(b"a", 10.0)], now=100.0)
    assert not convictions.merge([Conviction(b"a", 3.0)], now=100.0)
    assert convictions.left(104.0) == [Conviction(b"a", 6.0)]
    assert not convictions.merge([Conviction(b"a", 60.0)], now=104.0)
    assert convictions.left(105.0) == [Conviction(b"a", 59.0)]
    assert convictions.left(164.0) == []


def test_what_has_no_time_left_is_no_conviction() -> None:
    convictions = Convictions()
    past = [Conviction(b"a", 0.0), Conviction(b"b", -1.0), Conviction(b"c", math.nan)]
    assert not convictions.merge(past, now=100.0)
    assert convictions.left(100.0) == []


def test_of_too_many_the_newest_stay() -> None:
    convictions = Convictions()
    for number in range(MAX_CONVICTIONS + 10):
        convictions.merge([Conviction(b"%d" % number, 60.0)], now=100.0 + number / 1000)
    kept = [conviction.fingerprint for conviction in convictions.left(101.1)]
    assert kept == [b"%d" % number for number in range(10, MAX_CONVICTIONS + 10)]
