"""Answers to completion requests."""

import time

from msgspec import UNSET

from frontend.generation import Generation, IndexedDelta
from frontend.input_processor import PreparedRequest
from frontend.openai.responses import Completion, CompletionChoice, CompletionLogprobs
from frontend.openai.schemas import CompletionBody
from frontend.openai.sse import OPENAI_EVENTS
from frontend.openai.stream_usage import StreamUsage
from frontend.openai.text_events import TextEvents
from frontend.openai.token_text import TokenText
from frontend.openai.usage import count_usage, describe_run
from frontend.output_processor import ChoiceDelta
from frontend.tokenizer import Tokenizer


class CompletionAnswer:
    """Completions, whole and in chunks. With `echo`, each choice begins with its prompt."""

    events = OPENAI_EVENTS

    def __init__(
        self, body: CompletionBody, prepared: PreparedRequest, tokenizer: Tokenizer
    ) -> None:
        self._prepared = prepared
        self._created = int(time.time())
        self._echoes = bool(body.echo)
        self._wants_logprobs = body.logprobs is not None
        self._wants_prompt_logprobs = body.prompt_logprobs is not None
        self._wants_token_ids = bool(body.return_token_ids)
        self._skips_special_tokens = body.skip_special_tokens is not False
        self._usage = StreamUsage(body.stream_options, prepared)
        self._tokenizer = tokenizer
        self._token_text = TokenText(tokenizer, bool(body.return_tokens_as_token_ids))
        self._tells_only_text = not (
            self._wants_logprobs or self._wants_token_ids or self._usage.is_continuous
        )
        self._text_events = TextEvents(self._text_chunk)
        self._begun: set[int] = set()
        self._prompt_texts: dict[int, str] = {}

    def whole(self, generation: Generation, choices: list[ChoiceDelta]) -> Completion:
        """The answer in one object."""
        return Completion(
            id=self._prepared.response_id,
            created=self._created,
            model=self._prepared.model,
            choices=[self._choice(generation, i, delta) for i, delta in enumerate(choices)],
            usage=count_usage(self._prepared, generation),
            quadriga=describe_run(generation),
        )

    def chunks(self, generation: Generation, news: IndexedDelta) -> list[Completion] | list[bytes]:
        """One chunk, if the news is anything to see; the last of a choice has its finish reason."""
        index, delta = news.index, news.delta
        is_more_text = bool(delta.text) and delta.finish_reason is None
        if is_more_text and self._tells_only_text and index in self._begun:
            return [self._text_events.event(generation, index, delta.text)]
        has_text = bool(delta.text) or delta.finish_reason is not None
        wants_tokens = self._wants_logprobs or self._wants_token_ids
        is_first_echo = self._echoes and index not in self._begun and bool(delta.token_ids)
        if not has_text and not is_first_echo and not (delta.token_ids and wants_tokens):
            return []
        return [self._chunk(generation, index, delta)]

    def last_chunks(self, generation: Generation) -> list[Completion]:
        """A chunk without choices that tells the usage, if asked for."""
        if not self._usage.is_wanted:
            return []
        return [
            Completion(
                id=self._prepared.response_id,
                created=self._created,
                model=self._prepared.model,
                choices=[],
                usage=count_usage(self._prepared, generation),
                quadriga=describe_run(generation),
            )
        ]

    def _text_chunk(self, generation: Generation, index: int, text: str) -> Completion:
        return self._chunk(generation, index, ChoiceDelta(text))

    def _chunk(self, generation: Generation, index: int, delta: ChoiceDelta) -> Completion:
        choice = self._choice(generation, index, delta)
        chunk = Completion(
            id=self._prepared.response_id,
            created=self._created,
            model=self._prepared.model,
            choices=[choice],
            usage=self._usage.on_chunk(generation),
        )
        if delta.finish_reason is None:
            choice.stop_reason = UNSET
        else:
            chunk.quadriga = describe_run(generation)
        return chunk

    def _choice(self, generation: Generation, index: int, delta: ChoiceDelta) -> CompletionChoice:
        choice = CompletionChoice(
            index=index,
            text=delta.text,
            finish_reason=delta.finish_label,
            stop_reason=delta.stop_reason,
        )
        prompt_text = self._prompt_text(index)
        if self._wants_logprobs:
            choice.logprobs = self._token_text.completion(delta.logprobs, len(prompt_text))
        if self._wants_token_ids:
            choice.token_ids = delta.token_ids
        if index not in self._begun:
            self._begun.add(index)
            self._begin(choice, generation, prompt_text)
        return choice

    def _begin(self, choice: CompletionChoice, generation: Generation, prompt_text: str) -> None:
        """Put in front what comes once: the echoed prompt and what was asked about it."""
        prompt = self._prepared.prompt_of(choice.index)
        prompt_logprobs = generation.choices[choice.index].processor.prompt_logprobs
        choice.text = prompt_text + choice.text
        if choice.logprobs is not None and self._echoes:
            echoed = self._token_text.echoed_prompt(
                prompt.token_ids, prompt_logprobs, self._skips_special_tokens
            )
            choice.logprobs = _joined(echoed, choice.logprobs)
        if self._wants_prompt_logprobs:
            choice.prompt_logprobs = self._token_text.prompt(prompt_logprobs)
        if self._wants_token_ids:
            choice.prompt_token_ids = prompt.token_ids

    def _prompt_text(self, index: int) -> str:
        if not self._echoes:
            return ""
        text = self._prompt_texts.get(index)
        if text is None:
            prompt = self._prepared.prompt_of(index)
            text = prompt.text
            if text is None:
                text = self._tokenizer.decode(prompt.token_ids, self._skips_special_tokens)
            self._prompt_texts[index] = text
        return text


def _joined(first: CompletionLogprobs, second: CompletionLogprobs) -> CompletionLogprobs:
    return CompletionLogprobs(
        text_offset=first.text_offset + second.text_offset,
        token_logprobs=first.token_logprobs + second.token_logprobs,
        tokens=first.tokens + second.tokens,
        top_logprobs=first.top_logprobs + second.top_logprobs,
    )
