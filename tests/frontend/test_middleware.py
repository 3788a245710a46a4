"""What is counted, and under which labels."""

import pytest
from prometheus_client import CollectorRegistry, Counter
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from frontend.middleware import RequestCounting


async def found(request: Request) -> Response:
    return PlainTextResponse(request.path_params["name"])


class Counted:
    """An application whose requests are counted in a registry of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self.registry = CollectorRegistry()
        counter = Counter(
            "http_requests", "x", ("method", "handler", "status"), registry=self.registry
        )
        self.app = RequestCounting(app, counter)

    def count(self, method: str, handler: str, status: str) -> float | None:
        labels = {"method": method, "handler": handler, "status": status}
        return self.registry.get_sample_value("http_requests_total", labels)


ROUTER = Router([Route("/things/{name}", found)])


async def receive() -> Message:
    return {"type": "http.disconnect"}


async def drop(_: Message) -> None:
    pass


async def call(app: ASGIApp, method: str, path: str) -> None:
    scope = {"type": "http", "method": method, "path": path, "headers": [], "query_string": b""}
    await app(scope, receive, drop)


async def test_requests_are_counted_by_route_not_by_path() -> None:
    counted = Counted(ROUTER)
    for name in ("a", "b", "c"):
        await call(counted.app, "GET", f"/things/{name}")
    assert counted.count("GET", "/things/{name}", "2xx") == 3


async def test_what_clients_make_up_shares_one_label() -> None:
    counted = Counted(ROUTER)
    await call(counted.app, "GET", "/made/up")
    await call(counted.app, "BREW", "/made/up/too")
    assert counted.count("GET", "none", "4xx") == 1
    assert counted.count("other", "none", "4xx") == 1


async def test_a_client_that_left_before_an_answer_counts_as_4xx() -> None:
    async def gone(_: Scope, __: Receive, ___: Send) -> None:
        raise ClientDisconnect

    counted = Counted(gone)
    with pytest.raises(ClientDisconnect):
        await call(counted.app, "POST", "/x")
    assert counted.count("POST", "none", "4xx") == 1
