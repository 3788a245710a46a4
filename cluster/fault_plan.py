"""Faults that engines are told to have, for drills: `KIND[:key=value]…`, such as `hang:rank=0:step=500`."""

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from cluster.errors import ConfigError


class FaultKind(enum.Enum):
    """What happens when a fault strikes."""

    RAISE = "raise"
    """The forward pass raises a Python exception."""
    SEGFAULT = "segfault"
    """The process reads memory that it does not have."""
    ABORT = "abort"
    """The process aborts, as a failed assertion of a C library would."""
    HANG = "hang"
    """The forward pass never returns."""
    SLOW = "slow"
    """The forward pass takes `seconds` longer."""
    OUT_OF_MEMORY = "out-of-memory"
    """The forward pass gets no memory."""
    FAIL_START = "fail-start"
    """The model cannot be loaded."""


class Fault(NamedTuple):
    """One fault and the conditions that must all hold for it to strike; None means always."""

    spec: str
    kind: FaultKind
    prompt: tuple[int, ...] | None = None
    """Only with a request in the step whose prompt has these token ids one after another."""
    output: int | None = None
    """Only when that request is to draw this output position; else while its context is computed."""
    rank: int | None = None
    incarnation: int | None = None
    step: int | None = None
    """From this step of the engine's on; its first is 1."""
    times: int = 1
    """How many steps of one incarnation a `slow` one strikes."""
    seconds: float = 0.0
    """How much longer a `slow` one makes a step."""

    def concerns(self, rank: int, incarnation: int) -> bool:
        """Whether it may ever strike in this incarnation of an engine."""
        return self.rank in (None, rank) and self.incarnation in (None, incarnation)


def parse_fault(spec: str) -> Fault:
    """The fault that `spec` describes. Raises ConfigError, naming it and what is allowed."""
    name, *conditions = spec.split(":")
    try:
        kind = FaultKind(name)
    except ValueError:
        allowed = ", ".join(kind.value for kind in FaultKind)
        raise _error(spec, f"{name!r} is not one of {allowed}") from None
    values: dict[str, Any] = {}
    for condition in conditions:
        key, equals, text = condition.partition("=")
        if key not in _KEYS or not equals:
            raise _error(spec, f"{condition!r} is not key=value with a key of {', '.join(_KEYS)}")
        if key in values:
            raise _error(spec, f"{key} is given twice")
        read, limit = _KEYS[key]
        try:
            values[key] = read(text)
        except ValueError:
            raise _error(spec, f"{key} must be {limit}, not {text!r}") from None
    _check_keys(spec, kind, values)
    return Fault(spec, kind)._replace(**values)


def faults_for(specs: Sequence[str], rank: int, incarnation: int) -> list[Fault]:
    """Those of the faults that may strike in this incarnation of an engine. Raises ConfigError."""
    faults = [parse_fault(spec) for spec in specs]
    return [fault for fault in faults if fault.concerns(rank, incarnation)]


def _check_keys(spec: str, kind: FaultKind, values: dict[str, Any]) -> None:
    """Raises ConfigError for conditions that mean nothing together."""
    if kind is FaultKind.SLOW and "seconds" not in values:
        raise _error(spec, "slow needs seconds=, by how much a step is longer")
    if kind is not FaultKind.SLOW and values.keys() & {"seconds", "times"}:
        raise _error(spec, "seconds and times are for slow: any other fault ends its engine "
                     "(incarnation=1 lets it strike in an engine's first life alone)")  # fmt: skip
    if kind is FaultKind.FAIL_START and values.keys() - {"rank", "incarnation"}:
        raise _error(
            spec, "fail-start strikes before any step: only rank and incarnation go with it"
        )
    if "output" in values and "prompt" not in values:
        raise _error(spec, "output needs prompt=, whose output it is")


def _error(spec: str, complaint: str) -> ConfigError:
    return ConfigError(f"--inject-fault {spec}: {complaint}")


def _integer(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or int(text) < least:
            raise ValueError(text)
        return int(text)

    return read


def _token_ids(text: str) -> tuple[int, ...]:
    return tuple(map(_integer(0), text.split("-")))


def _seconds(text: str) -> float:
    seconds = float(text)
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(text)
    return seconds


_KEYS: dict[str, tuple[Callable[[str], Any], str]] = {
    "prompt": (_token_ids, "token ids with - between them, such as 7-7-9"),
    "output": (_integer(0), "an output position, 0 or more"),
    "rank": (_integer(0), "the rank of an engine, 0 or more"),
    "incarnation": (_integer(1), "the number of a life, 1 or more"),
    "step": (_integer(1), "the number of a step, 1 or more"),
    "times": (_integer(1), "a number of steps, 1 or more"),
    "seconds": (_seconds, "a number of seconds above 0"),
}
