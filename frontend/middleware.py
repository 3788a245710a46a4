"""What every request passes through, in plain ASGI: nothing here touches a stream's chunks."""

import hmac
import logging
import secrets
from collections.abc import Sequence

from prometheus_client import Counter
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cluster.errors import Forbidden, Unauthorized
from frontend.anthropic.errors import is_anthropic_path
from frontend.openai.errors import error_response

OPEN_PATHS = frozenset({"/health", "/ready", "/version", "/metrics", "/openapi.json", "/docs"})
ADMIN_PREFIX = "/cluster/"
REQUEST_ID_HEADER, ANTHROPIC_REQUEST_ID_HEADER = "x-request-id", "request-id"
MAX_REQUEST_ID_CHARACTERS = 128
CLIENT_LEFT_STATUS = 499

logger = logging.getLogger(__name__)


class RequestCounting:
    """Counts answers by method, route and class of status."""

    def __init__(self, app: ASGIApp, counter: Counter) -> None:
        self._app = app
        self._counter = counter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = CLIENT_LEFT_STATUS

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            # Paths and methods that are not ours share one label each: clients make them up.
            handler = getattr(scope.get("route"), "path", "none")
            method = (
                scope["method"]
                if scope["method"] in ("GET", "HEAD", "POST", "OPTIONS")
                else "other"
            )
            self._counter.labels(method, handler, f"{status // 100}xx").inc()


class RequestIds:
    """Echoes `X-Request-Id`, cut to a sane length, or gives the answer one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = Headers(scope=scope).get(REQUEST_ID_HEADER, "")[:MAX_REQUEST_ID_CHARACTERS]
        if not request_id.isprintable() or not request_id:
            request_id = f"req-{secrets.token_hex(12)}"

        async def add_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID_HEADER] = request_id
                if is_anthropic_path(scope["path"]):
                    headers[ANTHROPIC_REQUEST_ID_HEADER] = request_id
            await send(message)

        await self._app(scope, receive, add_header)


class ErrorBoundary:
    """Turns whatever nobody expected into a 500 that tells nothing of our insides."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        has_begun = False

        async def watch(message: Message) -> None:
            nonlocal has_begun
            has_begun = has_begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except ClientDisconnect:
            logger.debug("a client left %s", scope["path"])
        except Exception as error:
            logger.exception("%s %s failed", scope.get("method"), scope.get("path"))
            if scope["type"] != "http":
                raise
            if not has_begun:
                await error_response(error, scope["path"])(scope, receive, send)


class Keys:
    """Lets through only who has the key that a path needs.

    Probes need none, operation needs an admin key, all else an API key if there are any. An admin
    key opens everything; without admin keys, operation is closed.
    """

    def __init__(self, app: ASGIApp, api_keys: Sequence[str], admin_keys: Sequence[str]) -> None:
        self._app = app
        self._api_keys = [key.encode() for key in api_keys]
        self._admin_keys = [key.encode() for key in admin_keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401 or 403."""
        error = self._objection(scope) if scope["type"] == "http" else None
        if error is None:
            await self._app(scope, receive, send)
        else:
            await error_response(error, scope["path"])(scope, receive, send)

    def _objection(self, scope: Scope) -> Unauthorized | Forbidden | None:
        needs_admin_key = scope["path"].startswith(ADMIN_PREFIX)
        if needs_admin_key and not self._admin_keys:
            return Forbidden(
                "Operation over HTTP is closed: this cluster was launched without --admin-key."
            )
        if scope["path"] in OPEN_PATHS or not (self._api_keys or needs_admin_key):
            return None
        given = key_of(Headers(scope=scope))
        if _is_among(given, self._admin_keys):
            return None
        if not _is_among(given, self._api_keys):
            return Unauthorized(
                "The API key is missing or not known; send `Authorization: Bearer KEY` or `X-API-Key: KEY`."
            )
        return Forbidden("This needs an admin key (--admin-key).") if needs_admin_key else None


def key_of(headers: Headers) -> bytes:
    """The key that was sent, as OpenAI's clients do or as Anthropic's; or nothing, which no key is."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        key = headers.get("x-api-key", "")
    return key.strip().encode("latin-1", "replace")


def _is_among(given: bytes, known_keys: Sequence[bytes]) -> bool:
    # All are compared, so that the time tells nothing about which came near.
    matches = [hmac.compare_digest(given, known) for known in known_keys]
    return any(matches)
