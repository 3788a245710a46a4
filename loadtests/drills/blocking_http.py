"""Single questions over HTTP, each on a connection of its own, for code that may block."""

import http.client
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

SECONDS = 30.0


class HttpAnswer(NamedTuple):
    """A whole answer."""

    status: int
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body's JSON value. Raises msgspec.DecodeError if it is none."""
        return msgspec.json.decode(self.body)


def ask_http(
    url: str,
    method: str,
    path: str,
    body: object = None,
    headers: dict[str, str] | None = None,
    seconds: float = SECONDS,
) -> HttpAnswer:
    """Send one request and read its answer. Raises OSError or http.client.HTTPException."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=seconds)
    encoded = None if body is None else msgspec.json.encode(body)
    sent = {"Content-Type": "application/json", "Connection": "close", **(headers or {})}
    try:
        connection.request(method, parts.path.rstrip("/") + path, encoded, sent)
        answer = connection.getresponse()
        names = {name.lower(): value for name, value in answer.getheaders()}
        return HttpAnswer(answer.status, names, answer.read())
    finally:
        connection.close()
