"""A client that keeps the tokens of an answer: the next question of a conversation follows them."""

import asyncio
import time
from typing import NamedTuple

import msgspec

from loadtests.completion_stream import DONE, CompletionStream, error_of_body
from loadtests.http_client import BrokenConnection, HttpClient
from loadtests.record import RequestRecord
from loadtests.sse import SseParser

PATH = "/v1/completions"


class Answer(NamedTuple):
    """What came back to a prompt."""

    record: RequestRecord
    token_ids: list[int]


class _Choice(msgspec.Struct):
    token_ids: list[int] | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []


class TurnClient:
    """Asks for answers of an exact length; never raises for one of them."""

    def __init__(
        self, http: HttpClient, model: str, answer_tokens: int, timeout_seconds: float
    ) -> None:
        self._http = http
        self._model = model
        self._answer_tokens = answer_tokens
        self._timeout_seconds = timeout_seconds
        self._decoder = msgspec.json.Decoder(_Chunk)

    async def ask(self, prompt: list[int], due_at: float) -> Answer:
        """Send a prompt of token ids, read the whole answer, and say what happened."""
        answer = Answer(RequestRecord(due_at), [])
        record = answer.record
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await self._stream(self._body(prompt), answer)
        except BrokenConnection as error:
            record.error_kind, record.error_detail = "broken connection", str(error)
        except TimeoutError:
            record.error_kind = "timeout"
            record.error_detail = f"no whole answer in {self._timeout_seconds:g} s"
        record.ended_at = time.monotonic()
        return answer

    async def _stream(self, body: bytes, answer: Answer) -> None:
        record = answer.record
        async with self._http.request("POST", PATH, body) as response:
            if response.status != 200:
                text = await response.read()
                record.error_kind, record.error_detail = error_of_body(response.status, text)
                return
            parser = SseParser()
            stream = CompletionStream(record, self._answer_tokens)
            async for piece in response.pieces:
                now = time.monotonic()
                for data in parser.feed(piece):
                    stream.add_event(data, now)
                    if data != DONE:
                        answer.token_ids.extend(self._tokens_in(data))
            stream.finish()

    def _tokens_in(self, data: bytes) -> list[int]:
        try:
            choices = self._decoder.decode(data).choices
        except msgspec.MsgspecError:
            return []  # the stream's own reading has noted it as an error
        return [token_id for choice in choices for token_id in choice.token_ids or ()]

    def _body(self, prompt: list[int]) -> bytes:
        return msgspec.json.encode(
            {
                "model": self._model,
                "prompt": prompt,
                "max_tokens": self._answer_tokens,
                "ignore_eos": True,
                "temperature": 0.0,
                "stream": True,
                "stream_options": {"include_usage": True},
                "return_token_ids": True,
            }
        )
