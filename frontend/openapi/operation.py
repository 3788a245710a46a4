"""One operation of the HTTP surface, as the OpenAPI document has it."""

import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import Response

from frontend.middleware import ADMIN_PREFIX, OPEN_PATHS
from frontend.openai.responses import ErrorBody

JSON = "application/json"
EVENTS = "text/event-stream"
BODY_ERRORS = (400, 413, 415)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value outside of the body."""

    name: str
    place: Literal["query", "header", "path"]
    type: Any
    description: str


@dataclass(frozen=True, slots=True)
class Operation:
    """A row of the table: where it is, what it takes, what it answers."""

    method: Literal["GET", "POST"]
    path: str
    """As the route has it."""
    route: Callable[[Request], Awaitable[Response]]
    """Its docstring is the description."""
    group: str
    answer: Any
    body: Any = None
    events: Any = None
    """What the events of a streamed answer hold, where there is one."""
    media_type: str = JSON
    statuses: tuple[int, ...] = (200,)
    """Those that come with the answer."""
    errors: tuple[int, ...] = ()
    """Those that come with an error, but for what keys and methods lead to."""
    error: Any = ErrorBody
    parameters: tuple[Parameter, ...] = ()
    example: dict[str, Any] | None = None
    """A body that is served, whatever the model is."""

    @property
    def needs(self) -> Literal["nothing", "key", "admin key"]:
        """What a client must have, if the server has keys."""
        if self.path.startswith(ADMIN_PREFIX):
            return "admin key"
        return "nothing" if self.path in OPEN_PATHS else "key"

    @property
    def all_errors(self) -> tuple[int, ...]:
        """Statuses that come with an error."""
        of_keys = {"nothing": (), "key": (401,), "admin key": (401, 403)}[self.needs]
        return tuple(sorted({*self.errors, *of_keys}))

    @property
    def template(self) -> str:
        """The path as OpenAPI writes it."""
        return re.sub(r":\w+}", "}", self.path)

    @property
    def description(self) -> str:
        """What it does."""
        return inspect.getdoc(self.route) or ""
