"""Operation over HTTP, for who has an admin key: decisions shown; drain, restart and scale by `launch`.

The bodies are those of `cluster.launch.operation`, checked there: what they may hold is written once.
"""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from cluster.errors import ControlError, InvalidRequest, OperationConflict
from frontend.launcher_link import ask_launcher
from frontend.request_body import read_body
from frontend.routes.json_response import json_response
from frontend.services import services_of

LONGEST_BODY_BYTES = 4096
MOST_DECISIONS = 1000


async def drain(request: Request) -> Response:
    """Take an engine out of service: 202 once that has begun."""
    return await _begin(request, "drain")


async def restart(request: Request) -> Response:
    """Restart a process, or all one by one: 202 once that has begun."""
    return await _begin(request, "restart")


async def scale(request: Request) -> Response:
    """Have more engines and frontends, or fewer: 202 once that has begun."""
    return await _begin(request, "scale")


async def operation(request: Request) -> Response:
    """What is under way, and how the last operation ended."""
    return json_response(msgspec.Raw((await _ask(request, "operation")).encode()))


async def decisions(request: Request) -> Response:
    """The last choices of an engine that this frontend made, the newest first, and why.

    `?n=` asks for fewer than all that are kept. Each frontend knows its own.
    """
    asked = request.query_params.get("n", str(MOST_DECISIONS))
    if not asked.isdecimal() or not 1 <= int(asked) <= MOST_DECISIONS:
        raise InvalidRequest(f"n must be a whole number from 1 to {MOST_DECISIONS}", "n")
    client = services_of(request).client
    return json_response(
        {
            "answered_by": client.describe().get("answered_by"),
            "decisions": client.decisions(int(asked)),
        }
    )


async def _begin(request: Request, verb: str) -> Response:
    fields = msgspec.json.encode(await read_body(request, dict[str, Any]))
    if len(fields) > LONGEST_BODY_BYTES:
        raise InvalidRequest(f"the body has {len(fields)} bytes, the limit is {LONGEST_BODY_BYTES}")
    answer = await _ask(request, verb, fields.decode())
    return json_response(msgspec.Raw(answer.encode()), 202)


async def _ask(request: Request, verb: str, *args: str) -> str:
    try:
        return await ask_launcher(services_of(request).config.run_directory, verb, *args)
    except OperationConflict:
        raise
    except ControlError as error:
        raise InvalidRequest(str(error)) from None
