"""GET /openapi.json and /docs."""

import re
from html.parser import HTMLParser

from tests.support.frontend_app import ANSWER, engine_that_says, http_client

VOID = {"meta", "br", "link"}


class Outline(HTMLParser):
    """Collects links and places of a page; fails where elements are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.sources: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            target = {"href": self.links, "id": self.places, "src": self.sources}.get(name)
            if target is not None:
                target.add(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


async def test_both_are_open_without_a_key() -> None:
    async with http_client(engine_that_says(ANSWER), api_key=["secret"]) as client:
        document = await client.get("/openapi.json")
        assert (document.status_code, document.headers["content-type"]) == (200, "application/json")
        assert document.json()["openapi"].startswith("3.1.")
        page = await client.get("/docs")
        assert page.status_code == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"


async def test_the_page_is_sound_shows_every_operation_and_fetches_nothing() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        page = (await client.get("/docs")).text
        document = (await client.get("/openapi.json")).json()
    outline = Outline()
    outline.feed(page)
    assert not outline.open
    assert not outline.sources
    inner = {link.removeprefix("#") for link in outline.links if link.startswith("#")}
    assert outline.links == {f"#{name}" for name in inner} | {"openapi.json"}
    assert inner <= outline.places
    assert not re.search(r"@import|url\(|https?://", page)
    for path, operations in document["paths"].items():
        assert f"<code>{path}</code>" in page
        assert {operation["operationId"] for operation in operations.values()} <= outline.places
    assert {f"type-{name}" for name in document["components"]["schemas"]} <= outline.places


async def test_the_page_tells_limits_defaults_and_texts_of_fields() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        page = (await client.get("/docs")).text
    row = page[page.index("<code>temperature</code>") :]
    row = row[: row.index("</tr>")]
    assert "number, at least 0, at most 2" in row
    assert "0 is greedy." in row
    assert "prefers-color-scheme: dark" in page
    assert "$URL/v1/chat/completions" in page
