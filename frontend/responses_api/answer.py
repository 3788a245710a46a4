"""Answers of the Responses API."""

import time

from cluster.wire.sampling import FinishReason
from frontend.generation import Generation, IndexedDelta
from frontend.input_processor import PreparedRequest
from frontend.openai.token_text import TokenText
from frontend.openai.usage import count_usage, describe_run
from frontend.output_processor import ChoiceDelta
from frontend.responses_api.events import (
    Completed,
    Created,
    Event,
    Incomplete,
    InProgress,
    ResponseEvents,
)
from frontend.responses_api.objects import (
    IncompleteDetails,
    InputTokensDetails,
    OutputTokensDetails,
    Response,
    ResponseError,
    ResponseStatus,
    ResponseUsage,
    TextConfig,
)
from frontend.responses_api.output import Output
from frontend.responses_api.schemas import ReasoningOptions, ResponsesBody, TextFormat
from frontend.responses_api.token_cuts import TokenCuts
from frontend.responses_api.unsupported import LOGPROBS
from frontend.tokenizer import Tokenizer
from frontend.tools.choice_message import ChoiceMessage
from frontend.tools.pieces import ReasoningPiece


class ResponseAnswer:
    """A response, whole or event by event. Both ways it is put together by the same steps."""

    def __init__(
        self, body: ResponsesBody, prepared: PreparedRequest, tokenizer: Tokenizer
    ) -> None:
        self.events = ResponseEvents(self._failed)
        self._body = body
        self._prepared = prepared
        self._message = ChoiceMessage(
            prepared.message_format, tokenizer, prepared.requests[0].prompt_token_ids
        )
        self._output = Output(prepared.message_format.new_call_id)
        self._token_text = TokenText(tokenizer, bool(body.return_tokens_as_token_ids))
        self._cuts = TokenCuts() if LOGPROBS in (body.include or []) else None
        self._created_at = int(time.time())
        self._has_begun = False
        self._is_cut = False

    def whole(self, generation: Generation, choices: list[ChoiceDelta]) -> Response:
        """The response in one object."""
        self._push(choices[0])
        return self._ended(generation)

    def chunks(self, generation: Generation, news: IndexedDelta) -> list[Event]:
        """First that the response is under way; then the steps of its items."""
        events: list[Event] = []
        if not self._has_begun:
            self._has_begun = True
            events.append(Created(response=self._response("in_progress")))
            events.append(InProgress(response=self._response("in_progress")))
        return events + self._push(news.delta)

    def last_chunks(self, generation: Generation) -> list[Event]:
        """The whole response."""
        response = self._ended(generation)
        return [Incomplete(response=response) if self._is_cut else Completed(response=response)]

    @property
    def _num_reasoning_tokens(self) -> int:
        return self._message.num_reasoning_tokens or 0

    def _push(self, news: ChoiceDelta) -> list[Event]:
        events: list[Event] = []
        for delta in [news] if self._cuts is None else self._cuts.cut(news):
            pieces = self._message.push(delta)
            if not self._prepared.message_format.shows_reasoning:
                pieces = [piece for piece in pieces if not isinstance(piece, ReasoningPiece)]
            logprobs = self._token_text.chat(delta.logprobs).content
            events += self._output.push(pieces, logprobs, self._num_reasoning_tokens)
        if news.finish_reason is not None:
            self._is_cut = news.finish_reason is FinishReason.LENGTH
            events += self._output.finish("incomplete" if self._is_cut else "completed")
        return events

    def _ended(self, generation: Generation) -> Response:
        response = self._response("incomplete" if self._is_cut else "completed")
        response.usage = self._usage(generation)
        response.quadriga = describe_run(generation)
        if self._is_cut:
            response.incomplete_details = IncompleteDetails(reason="max_output_tokens")
        else:
            response.completed_at = int(time.time())
        return response

    def _failed(self, message: str) -> Response:
        response = self._response("failed")
        response.error = ResponseError(message=message)
        return response

    def _usage(self, generation: Generation) -> ResponseUsage:
        usage = count_usage(self._prepared, generation)
        return ResponseUsage(
            input_tokens=usage.prompt_tokens,
            input_tokens_details=InputTokensDetails(
                cached_tokens=usage.prompt_tokens_details.cached_tokens
            ),
            output_tokens=usage.completion_tokens,
            output_tokens_details=OutputTokensDetails(reasoning_tokens=self._num_reasoning_tokens),
            total_tokens=usage.total_tokens,
        )

    def _response(self, status: ResponseStatus) -> Response:
        """The response as far as it goes, with the fields of the request as they were understood."""
        body, sampling = self._body, self._prepared.requests[0].sampling
        return Response(
            id=self._prepared.response_id,
            created_at=self._created_at,
            status=status,
            instructions=body.instructions,
            max_output_tokens=body.max_output_tokens,
            max_tool_calls=body.max_tool_calls,
            model=self._prepared.model,
            output=self._output.items,
            parallel_tool_calls=body.parallel_tool_calls is not False,
            prompt_cache_key=body.prompt_cache_key,
            reasoning=ReasoningOptions(effort=body.reasoning.effort if body.reasoning else None),
            safety_identifier=body.safety_identifier,
            temperature=sampling.temperature,
            text=TextConfig(format=_text_format(body)),
            tool_choice=body.tool_choice if body.tool_choice is not None else "auto",
            tools=body.tools or [],
            top_logprobs=body.top_logprobs or 0,
            top_p=sampling.top_p,
            user=body.user,
            metadata=body.metadata or {},
        )


def _text_format(body: ResponsesBody) -> TextFormat:
    given = body.text.format if body.text is not None else None
    return given if given is not None else TextFormat(type="text")
