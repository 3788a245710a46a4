"""What a running cluster can be asked to do, as it comes over the control socket: verb and JSON."""

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from cluster.errors import ControlError

LONGEST_DEADLINE_SECONDS = 86_400.0

_PATH = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_MISSING = re.compile(r"required field `(?P<field>[^`]*)`")

Index = Annotated[int, Meta(ge=0, le=1023)]


class Drain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Take one engine out of service, its requests being finished or moved."""

    engine: Index
    deadline: Annotated[float, Meta(ge=0, le=LONGEST_DEADLINE_SECONDS)] | None = None
    """Seconds its requests get before they move. Default: the cluster's `shutdown_timeout`."""
    force: bool = False
    """Even if no other engine serves."""

    @property
    def words(self) -> str:
        """What it is called."""
        return f"drain engine {self.engine}"


class Restart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """End processes in good order and start them anew; exactly one field says which."""

    engine: Index | None = None
    frontend: Index | None = None
    coordinator: bool = False
    rolling: bool = False
    """All of them, one after the other."""

    @property
    def words(self) -> str:
        """What it is called."""
        if self.engine is not None:
            return f"restart engine {self.engine}"
        if self.frontend is not None:
            return f"restart frontend {self.frontend}"
        return "restart coordinator" if self.coordinator else "rolling restart"


class Scale(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Have so many engines, and so many frontends, from now on."""

    engines: Annotated[int, Meta(ge=1, le=1024)] | None = None
    frontends: Annotated[int, Meta(ge=1, le=256)] | None = None

    @property
    def words(self) -> str:
        """What it is called."""
        sizes = (("engine", self.engines), ("frontend", self.frontends))
        return "scale to " + " and ".join(_count(n, what) for what, n in sizes if n is not None)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


Operation = Drain | Restart | Scale
_KINDS: dict[str, type[Operation]] = {"drain": Drain, "restart": Restart, "scale": Scale}
VERBS = tuple(_KINDS)


def read_operation(verb: str, body: str) -> Operation:
    """The operation that a control request means.

    Raises ControlError, naming the field and its limit, if it is none.
    """
    try:
        operation: Operation = msgspec.json.decode(body.encode(), type=_KINDS[verb])
    except msgspec.ValidationError as error:
        raise ControlError(f"{verb}: {_explain(str(error))}") from None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise ControlError(f"{verb}: its arguments are not JSON: {error}") from None
    match operation:
        case Restart(engine, frontend, coordinator, rolling):
            given = (engine is not None, frontend is not None, coordinator, rolling)
            if sum(given) != 1:
                raise ControlError(
                    "restart: give exactly one of engine, frontend, coordinator and rolling"
                )
        case Scale(None, None):
            raise ControlError("scale: give engines, frontends or both")
        case _:
            pass
    return operation


def _explain(words: str) -> str:
    """msgspec's words, the field first."""
    found = _PATH.search(words)
    missing = _MISSING.search(words)
    if missing:
        return f"{missing['field']} is required"
    if found:
        words = words[: found.start()]
    words = words[:1].lower() + words[1:]
    return f"{found['path']}: {words}" if found and found["path"] else words
