"""The four ways to ask for an answer: chat or completion, streamed or whole. They must agree."""

import copy
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support.frontend_app import events_of
from tests.support.stream_merging import merged

CHAT_PATH, COMPLETIONS_PATH = "/v1/chat/completions", "/v1/completions"


@dataclass(frozen=True)
class Reply:
    """What a client has of an answer in the end, however it came."""

    choices: list[dict[str, Any]]
    """Text, reasons, log probabilities, token ids and the like, in the order of their indexes."""
    usage: dict[str, int] | None
    """The numbers of tokens, whatever of them was cached."""
    events: list[Any] = field(default_factory=list, compare=False)
    """The objects of the stream, if it was one."""

    @property
    def text(self) -> str:
        """The text of the first choice."""
        return str(self.choices[0]["text"])

    @property
    def finish_reason(self) -> str:
        """Why the first choice ended."""
        return str(self.choices[0]["finish_reason"])


@dataclass(frozen=True)
class Way:
    """One endpoint, streamed or not."""

    path: str
    is_streamed: bool

    @property
    def is_chat(self) -> bool:
        """Whether prompts are conversations."""
        return self.path == CHAT_PATH

    @property
    def prompt_field(self) -> str:
        """The field that errors about prompts name."""
        return "messages" if self.is_chat else "prompt"

    def body(self, text: Any = "Hi", **fields: Any) -> dict[str, Any]:
        """A body with this prompt; a field that is `...` is left out."""
        prompt = [{"role": "user", "content": text}] if self.is_chat else text
        stream = {"stream": True} if self.is_streamed else {}
        body = {self.prompt_field: prompt, **stream, **fields}
        return {name: value for name, value in body.items() if value is not ...}

    async def send(
        self, client: httpx.AsyncClient, text: Any = "Hi", **fields: Any
    ) -> httpx.Response:
        """The HTTP answer, good or bad."""
        return await client.post(self.path, json=self.body(text, **fields))

    async def ask(self, client: httpx.AsyncClient, text: Any = "Hi", **fields: Any) -> Reply:
        """The good answer, with its usage."""
        if self.is_streamed and "stream_options" not in fields:
            fields["stream_options"] = {"include_usage": True}
        return self.read(await self.send(client, text, **fields))

    def read(self, response: httpx.Response) -> Reply:
        """What a good answer says. Raises AssertionError if it is none."""
        assert response.status_code == 200, response.text
        if not self.is_streamed:
            answer = response.json()
            choices = [_choice(choice) for choice in answer["choices"]]
            return Reply(choices, _counts(answer["usage"]))
        events = events_of(response)
        answer = merged(copy.deepcopy(events))
        choices = [_choice(choice) for _, choice in sorted(answer["choices"].items())]
        return Reply(choices, _counts(answer.get("usage")), events)


WAYS = [Way(path, streamed) for path in (CHAT_PATH, COMPLETIONS_PATH) for streamed in (False, True)]


def name_of(way: Way) -> str:
    """For the names of tests."""
    return ("chat" if way.is_chat else "completion") + ("-streamed" if way.is_streamed else "")


def check_refused(
    response: httpx.Response, param: str | None, code: str | None = None, status: int = 400
) -> str:
    """Assert that this is an error object about this field, and no stream; its message."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["param"], error["code"]) == (param, code), error
    assert error["message"]
    return str(error["message"])


def _counts(usage: dict[str, Any] | None) -> dict[str, int] | None:
    if usage is None:
        return None
    return {name: count for name, count in usage.items() if isinstance(count, int)}


def _choice(choice: dict[str, Any]) -> dict[str, Any]:
    """A choice in one form for all four ways; what is null is not there."""
    flat = dict(choice)
    message = flat.pop("message", None) or flat.pop("delta", None)
    if message is not None:
        flat["text"] = message.get("content") or ""
        flat["tool_calls"] = message.get("tool_calls")
    return {name: value for name, value in flat.items() if value not in (None, [])}
