"""Answers to chat requests."""

import time

from msgspec import UNSET

from frontend.generation import Generation, IndexedDelta
from frontend.input_processor import PreparedRequest
from frontend.openai.responses import (
    AnsweredMessage,
    ChatChoice,
    ChatChunkChoice,
    ChatCompletion,
    ChatCompletionChunk,
    ChatDelta,
    ChatLogprobs,
)
from frontend.openai.schemas import ChatBody
from frontend.openai.stream_usage import StreamUsage
from frontend.openai.token_text import TokenText
from frontend.openai.usage import count_usage, describe_run
from frontend.output_processor import ChoiceDelta
from frontend.tokenizer import Tokenizer


class ChatAnswer:
    """Chat completions, whole and in chunks. The first chunk of each choice names the role."""

    def __init__(self, body: ChatBody, prepared: PreparedRequest, tokenizer: Tokenizer) -> None:
        self._prepared = prepared
        self._created = int(time.time())
        self._wants_logprobs = bool(body.logprobs)
        self._wants_prompt_logprobs = body.prompt_logprobs is not None
        self._wants_token_ids = bool(body.return_token_ids)
        self._usage = StreamUsage(body.stream_options, prepared)
        self._token_text = TokenText(tokenizer, bool(body.return_tokens_as_token_ids))
        self._begun: set[int] = set()

    def whole(self, generation: Generation, choices: list[ChoiceDelta]) -> ChatCompletion:
        """The answer in one object."""
        answer = ChatCompletion(
            id=self._prepared.response_id,
            created=self._created,
            model=self._prepared.model,
            choices=[self._choice(index, delta) for index, delta in enumerate(choices)],
            usage=count_usage(self._prepared, generation),
            quadriga=describe_run(generation),
        )
        if self._wants_prompt_logprobs:
            answer.prompt_logprobs = self._token_text.prompt(
                generation.choices[0].processor.prompt_logprobs
            )
        if self._wants_token_ids:
            answer.prompt_token_ids = self._prepared.prompts[0].token_ids
        return answer

    def chunks(self, generation: Generation, news: IndexedDelta) -> list[ChatCompletionChunk]:
        """The role first, then text; the last of a choice has its finish reason."""
        index, delta = news.index, news.delta
        chunks = [] if index in self._begun else [self._first_chunk(generation, index)]
        has_text = bool(delta.text) or delta.finish_reason is not None
        if has_text or (delta.token_ids and (self._wants_logprobs or self._wants_token_ids)):
            chunks.append(self._chunk(generation, index, delta))
        return chunks

    def last_chunk(self, generation: Generation) -> ChatCompletionChunk | None:
        """A chunk without choices that tells the usage, if asked for."""
        if not self._usage.is_wanted:
            return None
        return ChatCompletionChunk(
            id=self._prepared.response_id,
            created=self._created,
            model=self._prepared.model,
            choices=[],
            usage=count_usage(self._prepared, generation),
            quadriga=describe_run(generation),
        )

    def _choice(self, index: int, delta: ChoiceDelta) -> ChatChoice:
        return ChatChoice(
            index=index,
            message=AnsweredMessage(content=delta.text),
            logprobs=self._logprobs(delta),
            finish_reason=delta.finish_label,
            stop_reason=delta.stop_reason,
            token_ids=delta.token_ids if self._wants_token_ids else UNSET,
        )

    def _first_chunk(self, generation: Generation, index: int) -> ChatCompletionChunk:
        self._begun.add(index)
        choice = ChatChunkChoice(index=index, delta=ChatDelta(role="assistant", content=""))
        chunk = self._around(generation, choice)
        if self._wants_token_ids:
            chunk.prompt_token_ids = self._prepared.prompts[0].token_ids
        return chunk

    def _chunk(self, generation: Generation, index: int, delta: ChoiceDelta) -> ChatCompletionChunk:
        is_last = delta.finish_reason is not None
        chunk = self._around(
            generation,
            ChatChunkChoice(
                index=index,
                delta=ChatDelta(content=delta.text) if delta.text or not is_last else ChatDelta(),
                logprobs=self._logprobs(delta),
                finish_reason=delta.finish_label,
                stop_reason=delta.stop_reason if is_last else UNSET,
                token_ids=delta.token_ids if self._wants_token_ids else UNSET,
            ),
        )
        if is_last:
            chunk.quadriga = describe_run(generation)
        return chunk

    def _around(self, generation: Generation, choice: ChatChunkChoice) -> ChatCompletionChunk:
        return ChatCompletionChunk(
            id=self._prepared.response_id,
            created=self._created,
            model=self._prepared.model,
            choices=[choice],
            usage=self._usage.on_chunk(generation),
        )

    def _logprobs(self, delta: ChoiceDelta) -> ChatLogprobs | None:
        return self._token_text.chat(delta.logprobs) if self._wants_logprobs else None
