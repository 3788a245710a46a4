"""What can be said about faults, and what is refused."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.errors import ConfigError
from cluster.fault_plan import Fault, FaultKind, faults_for, parse_fault


def test_a_kind_alone_strikes_always_and_everywhere() -> None:
    assert parse_fault("out-of-memory") == Fault("out-of-memory", FaultKind.OUT_OF_MEMORY)


def test_all_conditions_are_read() -> None:
    spec = "segfault:prompt=7-7-9:output=3:rank=0:incarnation=2:step=500"
    fault = parse_fault(spec)
    assert fault == Fault(
        spec, FaultKind.SEGFAULT, prompt=(7, 7, 9), output=3, rank=0, incarnation=2, step=500
    )


def test_a_slow_step_has_a_length_and_a_number() -> None:
    fault = parse_fault("slow:seconds=0.25:times=3")
    assert (fault.seconds, fault.times) == (0.25, 3)


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("", "'' is not one of raise, segfault, abort, hang, slow, out-of-memory, fail-start"),
        ("explode:rank=0", "'explode' is not one of raise"),
        ("hang:", "'' is not key=value"),
        ("hang:rank", "'rank' is not key=value with a key of prompt, output, rank"),
        ("hang:when=5", "'when=5' is not key=value"),
        ("hang:rank=-1", "rank must be the rank of an engine, 0 or more, not '-1'"),
        ("hang:rank=1:rank=2", "rank is given twice"),
        ("hang:step=0", "step must be the number of a step, 1 or more, not '0'"),
        ("hang:step=²", "step must be"),
        ("raise:prompt=", "prompt must be token ids with - between them, such as 7-7-9, not ''"),
        ("raise:prompt=1--2", "prompt must be token ids"),
        ("raise:prompt=a", "prompt must be token ids"),
        ("raise:output=3", "output needs prompt="),
        ("slow", "slow needs seconds="),
        ("slow:seconds=nan", "seconds must be a number of seconds above 0, not 'nan'"),
        ("slow:seconds=0", "seconds must be a number of seconds above 0"),
        ("abort:times=2", "seconds and times are for slow"),
        ("fail-start:step=4", "only rank and incarnation go with it"),
    ],
)
def test_what_means_nothing_is_refused_with_what_would(spec: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_fault(spec)
    assert str(refusal.value).startswith(f"--inject-fault {spec}: ")
    assert complaint in str(refusal.value)


@given(st.text(st.sampled_from("abort:hang=rank-0123456789slow.prompt"), max_size=30))
def test_any_text_is_a_fault_or_a_config_error(spec: str) -> None:
    with contextlib.suppress(ConfigError):
        assert parse_fault(spec).spec == spec


def test_an_engine_hears_only_of_the_faults_that_may_strike_it() -> None:
    specs = ["raise", "hang:rank=1", "abort:incarnation=2", "segfault:rank=1:incarnation=2"]
    assert [fault.spec for fault in faults_for(specs, 1, 2)] == specs
    assert [fault.spec for fault in faults_for(specs, 0, 1)] == ["raise"]
    assert [fault.spec for fault in faults_for(specs, 1, 1)] == ["raise", "hang:rank=1"]
