"""Reads an answer, streamed or whole, into an exchange."""

import msgspec

from loadtests.completion_stream import error_of_body
from loadtests.drills.history import Arrival, Choice, Exchange

DONE = b"[DONE]"


class _Text(msgspec.Struct):
    content: str | None = None


class _Logprobs(msgspec.Struct):
    token_logprobs: list[float | None] | None = None
    content: list[msgspec.Raw] | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    text: str = ""
    delta: _Text | None = None
    message: _Text | None = None
    token_ids: list[int] | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class _Extension(msgspec.Struct):
    migrations: int = 0
    engines: list[int | None] = []


class _Error(msgspec.Struct):
    message: str = ""
    code: str | int | None = None
    type: str | None = None


class _Event(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: _Error | None = None
    quadriga: _Extension | None = None


_DECODER = msgspec.json.Decoder(_Event)


class AnswerReader:
    """Takes an answer in, event by event, and judges at the end whether it was whole."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def add_event(self, data: bytes, now: float) -> None:
        """Take in the data of one event that came at `now`."""
        exchange = self._exchange
        if exchange.num_ends:
            exchange.num_events_after_end += 1
        if data == DONE:
            exchange.num_ends += 1
            return
        self._add(data, now)

    def add_body(self, status: int, body: bytes, now: float) -> None:
        """Take in an answer that is no stream."""
        if status != 200:
            kind, self._exchange.error = error_of_body(status, body)
            self._exchange.error_code = kind.rpartition(" ")[2]
            self._exchange.failure = "refused" if status in {422, 429, 503} else "error"
            return
        self._add(body, now)
        self._exchange.num_ends += 1

    def finish(self, now: float) -> None:
        """The connection has ended in order."""
        exchange = self._exchange
        exchange.ended_at = now
        if exchange.failure:
            return
        is_ended = exchange.choices and all(c.finish_reasons for c in exchange.choices.values())
        if not exchange.num_ends or not is_ended:
            exchange.failure, exchange.error = "broken", "the stream ended early, without an error"

    def break_off(self, failure: str, error: str, now: float) -> None:
        """The connection has ended out of order, or it took too long."""
        exchange = self._exchange
        exchange.ended_at = now
        if not exchange.failure:
            exchange.failure = "timeout" if failure == "timeout" else "broken"
            exchange.error = error

    def _add(self, data: bytes, now: float) -> None:
        exchange = self._exchange
        try:
            event = _DECODER.decode(data)
        except msgspec.MsgspecError as error:
            exchange.failure, exchange.error = "error", f"an event that is none: {error}"
            return
        if event.error is not None:
            exchange.failure, exchange.error = "error", event.error.message
            exchange.error_code = str(event.error.code or event.error.type or "")
        if event.usage is not None:
            exchange.prompt_tokens = event.usage.prompt_tokens
            exchange.completion_tokens = event.usage.completion_tokens
        if event.quadriga is not None:
            exchange.migrations = event.quadriga.migrations
            exchange.engines = event.quadriga.engines
        for choice in event.choices:
            self._add_choice(choice, now)

    def _add_choice(self, news: _Choice, now: float) -> None:
        exchange = self._exchange
        choice = exchange.choices.setdefault(news.index, Choice())
        part = news.delta or news.message
        choice.text += news.text or (part.content if part and part.content else "")
        if news.token_ids:
            choice.token_ids += news.token_ids
            exchange.arrivals.append(Arrival(now, news.index, len(news.token_ids)))
        if news.logprobs is not None:
            choice.num_logprobs += len(news.logprobs.token_logprobs or news.logprobs.content or [])
        if news.finish_reason is not None:
            choice.finish_reasons.append(news.finish_reason)
            if news.finish_reason in {"abort", "error"} and not exchange.failure:
                exchange.failure, exchange.error = "error", f"finish reason {news.finish_reason}"
