"""What can be asked, and what is said about what cannot."""

import pytest

from cluster.errors import ControlError
from cluster.launch.operation import Drain, Restart, Scale, read_operation


def test_operations_are_read_from_verb_and_json() -> None:
    assert read_operation("drain", '{"engine": 1}') == Drain(1)
    assert read_operation("drain", '{"engine": 0, "deadline": 2, "force": true}') == Drain(
        0, 2.0, True
    )
    assert read_operation("restart", '{"frontend": 3}') == Restart(frontend=3)
    assert read_operation("restart", '{"rolling": true}') == Restart(rolling=True)
    assert read_operation("scale", '{"engines": 4, "frontends": 2}') == Scale(4, 2)


@pytest.mark.parametrize(
    ("verb", "body", "complaint"),
    [
        ("drain", "{}", "drain: engine is required"),
        ("drain", '{"engine": -1}', "drain: engine: expected `int` >= 0"),
        ("drain", '{"engine": 1, "deadline": -1}', "drain: deadline: expected `float` >= 0"),
        ("drain", '{"engine": 1, "deadline": 1e9}', "drain: deadline: expected `float` <= 86400"),
        ("drain", '{"engine": "all"}', "drain: engine: expected `int`, got `str`"),
        ("drain", '{"motor": 1}', "drain: object contains unknown field `motor`"),
        ("drain", "[1]", "drain: expected `object`, got `array`"),
        ("drain", '{"engine"', "drain: its arguments are not JSON"),
        ("drain", '{"engine": "\ud800"}', "drain: its arguments are not JSON"),
        ("restart", "{}", "restart: give exactly one of engine, frontend, coordinator and rolling"),
        ("restart", '{"engine": 1, "rolling": true}', "restart: give exactly one of"),
        ("scale", "{}", "scale: give engines, frontends or both"),
        ("scale", '{"engines": 0}', "scale: engines: expected `int` >= 1"),
        ("scale", '{"engines": 1025}', "scale: engines: expected `int` <= 1024"),
        ("scale", '{"frontends": 257}', "scale: frontends: expected `int` <= 256"),
    ],
)
def test_what_is_no_operation_is_refused_by_field_and_limit(
    verb: str, body: str, complaint: str
) -> None:
    with pytest.raises(ControlError) as refused:
        read_operation(verb, body)
    assert str(refused.value).startswith(complaint)


def test_operations_are_told_in_words() -> None:
    assert Drain(3).words == "drain engine 3"
    assert Restart(engine=0).words == "restart engine 0"
    assert Restart(frontend=1).words == "restart frontend 1"
    assert Restart(coordinator=True).words == "restart coordinator"
    assert Restart(rolling=True).words == "rolling restart"
    assert Scale(1, 2).words == "scale to 1 engine and 2 frontends"
