"""Events whose frame is made beforehand are byte for byte those that are made of a chunk."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.config import ClusterConfig
from cluster.wire.sampling import FinishReason
from frontend.generation import Choice, Generation, IndexedDelta
from frontend.input_processor import Arrival, InputProcessor, PreparedRequest
from frontend.openai.chat_answer import ChatAnswer
from frontend.openai.completion_answer import CompletionAnswer
from frontend.openai.responses import Completion, CompletionChoice
from frontend.openai.schemas import ChatBody, ChatMessage, CompletionBody, StreamOptions
from frontend.openai.sse import OPENAI_EVENTS
from frontend.openai.text_events import TextEvents
from frontend.output_processor import ChoiceDelta, OutputOptions, OutputProcessor
from frontend.request_stream import RequestStream
from tests.support.frontend_app import MODEL
from tests.support.tiny_tokenizer import tiny_tokenizer

INPUTS = InputProcessor(ClusterConfig(), MODEL, tiny_tokenizer())
TRICKY = ['"quoted" \\ / \b\f\n\r\t', "\x00\x1f\x7f", "漢字 😀 é", "\u2028\ufffd", "data: \n\n"]
Texts = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(TRICKY)
)


def chunk(text: str) -> Completion:
    return Completion(id="a", created=1, model='m"', choices=[CompletionChoice(index=0, text=text)])


@given(Texts)
def test_the_event_of_any_text_is_that_of_its_chunk(texts: list[str]) -> None:
    events, generation = TextEvents(lambda _, __, text: chunk(text)), Generation([])
    for text in texts:
        assert events.event(generation, 0, text) == OPENAI_EVENTS.event(chunk(text))


def answers(kind: str, **fields: Any) -> tuple[Any, Any, Generation]:
    """An answer that makes frames beforehand where it can, one that never does, and their choices."""
    body: Any
    fields |= {"stream": True}
    if kind == "chat":
        body = ChatBody(messages=[ChatMessage(role="user", content="Hi")], **fields)
        prepared = INPUTS.prepare_chat(body, Arrival(0.0), None)
        made: list[Any] = [ChatAnswer(body, prepared, tiny_tokenizer()) for _ in range(2)]
    else:
        body = CompletionBody(prompt="Hi", **fields)
        prepared = INPUTS.prepare_completion(body, Arrival(0.0), None)
        made = [CompletionAnswer(body, prepared, tiny_tokenizer()) for _ in range(2)]
    quick, slow = made
    slow._created = quick._created
    slow._tells_only_text = False
    return quick, slow, generation_of(prepared)


def generation_of(prepared: PreparedRequest) -> Generation:
    return Generation(
        [
            Choice(
                RequestStream(request, lambda _: None),
                OutputProcessor(tiny_tokenizer(), [], OutputOptions()),
            )
            for request in prepared.requests
        ]
    )


def events_of(answer: Any, generation: Generation, news: list[IndexedDelta]) -> list[bytes]:
    return [
        each if isinstance(each, bytes) else answer.events.event(each)
        for item in news
        for each in answer.chunks(generation, item)
    ]


@pytest.mark.parametrize("kind", ["chat", "completions"])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"n": 2},
        {"stream_options": StreamOptions(include_usage=True)},
        {"stream_options": StreamOptions(include_usage=True, continuous_usage_stats=True)},
        {"return_token_ids": True},
    ],
)
@given(st.lists(st.tuples(st.integers(0, 1), st.text('ab "\\é漢', max_size=4)), max_size=12))
def test_a_stream_is_the_same_with_frames_and_without(
    kind: str, fields: dict[str, Any], said: list[tuple[int, str]]
) -> None:
    quick, slow, generation = answers(kind, **fields)
    num_choices = len(generation.choices)
    news = [IndexedDelta(i % num_choices, ChoiceDelta(text, [5])) for i, text in said]
    news += [
        IndexedDelta(i, ChoiceDelta("end", [6], finish_reason=FinishReason.LENGTH))
        for i in range(num_choices)
    ]
    events = events_of(quick, generation, news)
    assert events == events_of(slow, generation, news)
    assert all(json.loads(event.removeprefix(b"data: ")) for event in events)


@pytest.mark.parametrize("kind", ["chat", "completions"])
def test_more_text_costs_no_chunk_and_all_else_does(kind: str) -> None:
    quick, _, generation = answers(kind)
    first, more = (IndexedDelta(0, ChoiceDelta(text, [5])) for text in ("a", "b"))
    last = IndexedDelta(0, ChoiceDelta("c", [5], finish_reason=FinishReason.STOP))
    kinds = [
        {type(each) is bytes for each in quick.chunks(generation, news)}
        for news in (first, more, last)
    ]
    assert kinds == [{False}, {True}, {False}]
