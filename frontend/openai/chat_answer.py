"""Answers to chat requests."""

import time
from typing import TypeVar

from msgspec import UNSET, UnsetType

from frontend.generation import Generation, IndexedDelta
from frontend.input_processor import PreparedRequest
from frontend.openai.responses import (
    ChatChoice,
    ChatChunkChoice,
    ChatCompletion,
    ChatCompletionChunk,
    ChatDelta,
    ChatLogprobs,
    CompletionTokensDetails,
    Usage,
)
from frontend.openai.schemas import ChatBody
from frontend.openai.sse import OPENAI_EVENTS
from frontend.openai.stream_usage import StreamUsage
from frontend.openai.text_events import TextEvents
from frontend.openai.token_text import TokenText
from frontend.openai.usage import count_usage, describe_run
from frontend.output_processor import ChoiceDelta
from frontend.tokenizer import Tokenizer
from frontend.tools.choice_message import ChoiceMessage
from frontend.tools.message_answer import message_delta, whole_message
from frontend.tools.message_format import PLAIN, MessageFormat

Counted = TypeVar("Counted", Usage, Usage | UnsetType | None)


class ChatAnswer:
    """Chat completions, whole and in chunks. The first chunk of each choice names the role.

    In a stream, reasoning, content and each step of a call have chunks of their own.
    """

    events = OPENAI_EVENTS

    def __init__(
        self,
        body: ChatBody,
        prepared: PreparedRequest,
        tokenizer: Tokenizer,
        message_format: MessageFormat = PLAIN,
    ) -> None:
        self._prepared = prepared
        self._format = message_format
        self._messages = [
            ChoiceMessage(message_format, tokenizer, request.prompt_token_ids)
            for request in prepared.requests
        ]
        self._created = int(time.time())
        self._wants_logprobs = bool(body.logprobs)
        self._wants_prompt_logprobs = body.prompt_logprobs is not None
        self._wants_token_ids = bool(body.return_token_ids)
        self._usage = StreamUsage(body.stream_options, prepared)
        self._token_text = TokenText(tokenizer, bool(body.return_tokens_as_token_ids))
        self._wants_tokens = self._wants_logprobs or self._wants_token_ids
        self._tells_only_text = message_format.is_plain and not (
            self._wants_tokens or self._usage.is_continuous
        )
        self._text_events = TextEvents(self._text_chunk)
        self._begun: set[int] = set()

    def whole(self, generation: Generation, choices: list[ChoiceDelta]) -> ChatCompletion:
        """The answer in one object."""
        answer = ChatCompletion(
            id=self._prepared.response_id,
            created=self._created,
            model=self._prepared.model,
            choices=[self._choice(index, delta) for index, delta in enumerate(choices)],
            usage=self._detailed(count_usage(self._prepared, generation)),
            quadriga=describe_run(generation),
        )
        if self._wants_prompt_logprobs:
            answer.prompt_logprobs = self._token_text.prompt(
                generation.choices[0].processor.prompt_logprobs
            )
        if self._wants_token_ids:
            answer.prompt_token_ids = self._prepared.prompts[0].token_ids
        return answer

    def chunks(
        self, generation: Generation, news: IndexedDelta
    ) -> list[ChatCompletionChunk] | list[bytes]:
        """The role first, then text and calls; the last of a choice has its finish reason."""
        index, delta = news.index, news.delta
        is_more_text = bool(delta.text) and delta.finish_reason is None
        if is_more_text and self._tells_only_text and index in self._begun:
            return [self._text_events.event(generation, index, delta.text)]
        pieces = self._messages[index].push(delta)
        chunks = [] if index in self._begun else [self._first_chunk(generation, index)]
        shown = [message_delta(piece, self._format) for piece in pieces]
        deltas = [shown_delta for shown_delta in shown if shown_delta is not None]
        is_last = delta.finish_reason is not None
        if not deltas and (is_last or (delta.token_ids and self._wants_tokens)):
            deltas = [ChatDelta() if is_last else ChatDelta(content="")]
        choices = [ChatChunkChoice(index=index, delta=chunk_delta) for chunk_delta in deltas]
        if choices:
            self._add_tokens(choices[0], delta)
        if is_last:
            self._finish(choices[-1], delta)
        chunks += [self._around(generation, choice) for choice in choices]
        if is_last:
            chunks[-1].quadriga = describe_run(generation)
        return chunks

    def last_chunks(self, generation: Generation) -> list[ChatCompletionChunk]:
        """A chunk without choices that tells the usage, if asked for."""
        if not self._usage.is_wanted:
            return []
        return [
            ChatCompletionChunk(
                id=self._prepared.response_id,
                created=self._created,
                model=self._prepared.model,
                choices=[],
                usage=self._detailed(count_usage(self._prepared, generation)),
                quadriga=describe_run(generation),
            )
        ]

    def _choice(self, index: int, delta: ChoiceDelta) -> ChatChoice:
        message = self._messages[index]
        return ChatChoice(
            index=index,
            message=whole_message(message.push(delta), self._format),
            logprobs=self._logprobs(delta),
            finish_reason=message.finish_label(delta),
            stop_reason=delta.stop_reason,
            token_ids=delta.token_ids if self._wants_token_ids else UNSET,
        )

    def _text_chunk(self, generation: Generation, index: int, text: str) -> ChatCompletionChunk:
        choice = ChatChunkChoice(index=index, delta=ChatDelta(content=text))
        return self._around(generation, choice)

    def _first_chunk(self, generation: Generation, index: int) -> ChatCompletionChunk:
        self._begun.add(index)
        # Where there may be calls and no content, an empty text would be left of it.
        content = "" if self._format.is_plain else None
        choice = ChatChunkChoice(index=index, delta=ChatDelta(role="assistant", content=content))
        chunk = self._around(generation, choice)
        if self._wants_token_ids:
            chunk.prompt_token_ids = self._prepared.prompts[0].token_ids
        return chunk

    def _add_tokens(self, choice: ChatChunkChoice, delta: ChoiceDelta) -> None:
        """Tell of the tokens, with or before their text."""
        choice.logprobs = self._logprobs(delta)
        if self._wants_token_ids:
            choice.token_ids = delta.token_ids

    def _finish(self, choice: ChatChunkChoice, delta: ChoiceDelta) -> None:
        choice.finish_reason = self._messages[choice.index].finish_label(delta)
        choice.stop_reason = delta.stop_reason

    def _around(self, generation: Generation, choice: ChatChunkChoice) -> ChatCompletionChunk:
        return ChatCompletionChunk(
            id=self._prepared.response_id,
            created=self._created,
            model=self._prepared.model,
            choices=[choice],
            usage=self._detailed(self._usage.on_chunk(generation)),
        )

    def _detailed(self, usage: Counted) -> Counted:
        """The usage with the tokens of the reasoning, where it is told apart."""
        if isinstance(usage, Usage) and self._format.new_reasoning_parser is not None:
            counts = [message.num_reasoning_tokens for message in self._messages]
            usage.completion_tokens_details = CompletionTokensDetails(sum(filter(None, counts)))
        return usage

    def _logprobs(self, delta: ChoiceDelta) -> ChatLogprobs | None:
        return self._token_text.chat(delta.logprobs) if self._wants_logprobs else None
