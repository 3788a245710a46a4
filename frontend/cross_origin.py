"""What browsers are told of which pages may use the API."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cluster.config import FrontendConfig

EVERYTHING = "*"
METHODS = ("GET", "HEAD", "POST", "OPTIONS")
EXPOSED_HEADERS = "x-request-id, x-quadriga-resumable, retry-after"
SECONDS_TO_REMEMBER = 600


class CrossOrigin:
    """Answers the questions that browsers ask beforehand, which carry no key, and marks all answers.

    A page that may not use the API gets no mark: its browser then keeps the answer from it.
    """

    def __init__(self, app: ASGIApp, settings: FrontendConfig) -> None:
        self._app = app
        self._origins = frozenset(settings.allowed_origins)
        self._methods = _listed(settings.allowed_methods, METHODS)
        self._headers = _listed(settings.allowed_headers, ())
        self._allows_credentials = settings.allow_credentials

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, unless it is such a question."""
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        origin = headers.get("origin")

        async def mark(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._mark(MutableHeaders(scope=message), origin)
            await send(message)

        # Where answers differ by page, caches must know it also of those that no page asked for.
        is_marked = scope["type"] == "http" and (origin is not None or not self._is_open)
        sending = mark if is_marked else send
        if origin is not None and scope["method"] == "OPTIONS":
            await self._answer(headers, origin)(scope, receive, sending)
        else:
            await self._app(scope, receive, sending)

    @property
    def _is_open(self) -> bool:
        return EVERYTHING in self._origins

    def _allows(self, origin: str) -> bool:
        return self._is_open or origin in self._origins

    def _mark(self, answer: MutableHeaders, origin: str | None) -> None:
        if not self._is_open:
            answer.add_vary_header("Origin")
        if origin is None or not self._allows(origin):
            return
        answer["access-control-allow-origin"] = EVERYTHING if self._is_open else origin
        answer["access-control-expose-headers"] = EXPOSED_HEADERS
        if self._allows_credentials:
            answer["access-control-allow-credentials"] = "true"

    def _answer(self, asked: Headers, origin: str) -> Response:
        if not self._allows(origin):
            return Response(status_code=204)
        # `*` would not stand for Authorization: what is asked for is repeated.
        headers = self._headers or asked.get("access-control-request-headers", EVERYTHING)
        return Response(
            status_code=204,
            headers={
                "access-control-allow-methods": self._methods,
                "access-control-allow-headers": headers,
                "access-control-max-age": str(SECONDS_TO_REMEMBER),
            },
        )


def _listed(allowed: list[str], everything: tuple[str, ...]) -> str:
    return ", ".join(everything if EVERYTHING in allowed else allowed)
