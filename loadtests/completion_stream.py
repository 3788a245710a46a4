"""One streamed completion, read event by event into a record."""

import msgspec

from loadtests.record import RequestRecord, TokenArrival

DONE = b"[DONE]"


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    text: str = ""
    delta: _Delta | None = None
    token_ids: list[int] | None = None
    finish_reason: str | None = None


class _PromptTokensDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _PromptTokensDetails | None = None


class _Error(msgspec.Struct):
    message: str = ""
    code: str | int | None = None
    type: str | None = None


class _Extension(msgspec.Struct):
    migrations: int = 0


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: _Error | None = None
    quadriga: _Extension | None = None


class CompletionStream:
    """Turns a stream's events into arrivals of tokens, and says at the end whether it was whole.

    Tokens are counted by the `token_ids` of each event, where the server sends them; else by the
    growth of a continuous `usage`; else an event with text counts as one token, and the final usage
    corrects the last of them.
    """

    def __init__(self, record: RequestRecord, expected_output_tokens: int | None = None) -> None:
        self._record = record
        self._expected_output_tokens = expected_output_tokens
        self._decoder = msgspec.json.Decoder(_Chunk)
        self._num_tokens = 0
        self._has_token_ids = False
        self._usage: _Usage | None = None
        self._is_done = False

    def add_event(self, data: bytes, now: float) -> None:
        """Take in the data of one event that arrived at `now`."""
        if data == DONE:
            self._is_done = True
            return
        try:
            chunk = self._decoder.decode(data)
        except msgspec.MsgspecError as error:
            self._fail("event that is no chunk", str(error))
            return
        if chunk.error is not None:
            self._fail(f"error in the stream: {_kind(chunk.error)}", chunk.error.message)
        if chunk.quadriga is not None:
            self._record.migrations = chunk.quadriga.migrations
        for choice in chunk.choices:
            self._record.finish_reason = choice.finish_reason or self._record.finish_reason
        num_tokens = self._count(chunk)
        if num_tokens > 0:
            self._num_tokens += num_tokens
            self._record.arrivals.append(TokenArrival(now, num_tokens))

    def _count(self, chunk: _Chunk) -> int:
        if chunk.usage is not None:
            self._usage = chunk.usage
        token_ids = [choice.token_ids for choice in chunk.choices if choice.token_ids is not None]
        if token_ids:
            self._has_token_ids = True
            for some in token_ids:
                self._record.token_ids += some
            return sum(map(len, token_ids))
        if self._has_token_ids:
            return 0
        if chunk.usage is not None and chunk.choices:
            return chunk.usage.completion_tokens - self._num_tokens
        has_text = any(
            choice.text or (choice.delta and choice.delta.content) for choice in chunk.choices
        )
        return 1 if has_text else 0

    def finish(self) -> None:
        """The stream has ended: take over the usage, and note an error if something is missing."""
        record, usage = self._record, self._usage
        if record.error_kind is not None:
            return
        if not self._is_done or record.finish_reason is None:
            self._fail("stream ended early", f"after {self._num_tokens} tokens")
        elif record.finish_reason in {"abort", "error"}:
            self._fail(f"finish reason {record.finish_reason}", "")
        elif usage is not None:
            self._take_over(usage)
        expected = self._expected_output_tokens
        if record.error_kind is None and expected not in {None, record.output_tokens}:
            self._fail("wrong length", f"{record.output_tokens} tokens instead of {expected}")

    def _take_over(self, usage: _Usage) -> None:
        record = self._record
        record.prompt_tokens = usage.prompt_tokens
        if usage.prompt_tokens_details is not None:
            record.cached_tokens = usage.prompt_tokens_details.cached_tokens or 0
        missing = usage.completion_tokens - self._num_tokens
        if not missing:
            return
        if self._has_token_ids:
            self._fail(
                "usage differs from the tokens",
                f"usage says {usage.completion_tokens}, {self._num_tokens} came",
            )
        elif record.arrivals:
            last = record.arrivals[-1]
            record.arrivals[-1] = last._replace(num_tokens=last.num_tokens + missing)

    def _fail(self, kind: str, detail: str) -> None:
        if self._record.error_kind is None:
            self._record.error_kind = kind
            self._record.error_detail = detail


def error_of_body(status: int, body: bytes) -> tuple[str, str]:
    """Kind and detail of an answer that is not a stream, by its status and OpenAI error body."""
    try:
        error = msgspec.json.decode(body, type=_Chunk).error
    except msgspec.MsgspecError:
        error = None
    if error is None:
        return f"HTTP {status}", body[:200].decode("utf-8", "replace")
    return f"HTTP {status} {_kind(error)}", error.message


def _kind(error: _Error) -> str:
    return str(error.code or error.type or "unnamed")
