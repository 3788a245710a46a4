"""The table of all operations. A test holds it to the routes, in both directions."""

from typing import Annotated, Any

from msgspec import Meta

from frontend.anthropic.errors import ErrorBody as MessageErrorBody
from frontend.anthropic.objects import Event as MessageEvent
from frontend.anthropic.objects import Message, TokenCount
from frontend.anthropic.schemas import MessageBody, PromptBody
from frontend.embeddings.objects import EmbeddingList
from frontend.embeddings.schemas import EmbeddingBody
from frontend.openai.responses import (
    ChatCompletion,
    ChatCompletionChunk,
    Completion,
    DetokenizeResponse,
    ModelCard,
    ModelList,
    TokenizeResponse,
)
from frontend.openai.schemas import (
    ChatBody,
    CompletionBody,
    DetokenizeBody,
    TokenizeChatBody,
    TokenizeCompletionBody,
)
from frontend.openapi.operation import BODY_ERRORS, Operation, Parameter
from frontend.responses_api import events as response_events
from frontend.responses_api.objects import Response as ResponseObject
from frontend.responses_api.schemas import ResponsesBody
from frontend.routes import (
    administration,
    documentation,
    embeddings,
    generation,
    messages,
    models,
    operations,
    responses,
    tokenization,
)
from frontend.routes.administration import MOST_DECISIONS
from frontend.routes.respond import MAX_SESSION_CHARACTERS

GENERATION_ERRORS = (*BODY_ERRORS, 404, 422, 429, 500, 503)
"""No such model; a request that has killed engines; too much to do; an engine failed; no engine."""
GENERATION_HEADERS = (
    Parameter(
        "X-Session-ID",
        "header",
        Annotated[str, Meta(max_length=MAX_SESSION_CHARACTERS)],
        "Requests of one session go to the same engine where that costs nothing.",
    ),
    Parameter(
        "X-data-parallel-rank",
        "header",
        str,  # what is no number is ignored
        "The engine that must answer. The body's `data_parallel_rank` wins over it.",
    ),
    Parameter("traceparent", "header", str, "Carried to the engine."),
)
RESPONSE_EVENTS = (
    response_events.Created
    | response_events.InProgress
    | response_events.ItemAdded
    | response_events.PartAdded
    | response_events.TextDelta
    | response_events.TextDone
    | response_events.ReasoningDelta
    | response_events.ReasoningDone
    | response_events.PartDone
    | response_events.ArgumentsDelta
    | response_events.ArgumentsDone
    | response_events.ItemDone
    | response_events.Completed
    | response_events.Incomplete
    | response_events.Failed
    | response_events.ErrorEvent
)
TURN = {"role": "user", "content": "Hello"}
ANYTHING = dict[str, Any]

OPERATIONS = [
    Operation(
        "POST", "/v1/chat/completions", generation.create_chat_completion, "Generation",
        body=ChatBody, answer=ChatCompletion, events=ChatCompletionChunk,
        errors=GENERATION_ERRORS, parameters=GENERATION_HEADERS,
        example={"messages": [TURN], "max_tokens": 16},
    ),
    Operation(
        "POST", "/v1/completions", generation.create_completion, "Generation",
        body=CompletionBody, answer=Completion, events=Completion,
        errors=GENERATION_ERRORS, parameters=GENERATION_HEADERS,
        example={"prompt": "Hello", "max_tokens": 16},
    ),
    Operation(
        "POST", "/v1/responses", responses.create_response, "Generation",
        body=ResponsesBody, answer=ResponseObject, events=RESPONSE_EVENTS,
        errors=GENERATION_ERRORS, parameters=GENERATION_HEADERS,
        example={"input": "Hello", "max_output_tokens": 16},
    ),
    Operation(
        "POST", "/v1/messages", messages.create_message, "Generation",
        body=MessageBody, answer=Message, events=MessageEvent, error=MessageErrorBody,
        errors=GENERATION_ERRORS, parameters=GENERATION_HEADERS,
        example={"model": "MODEL", "messages": [TURN], "max_tokens": 16},
    ),
    Operation(
        "POST", "/v1/messages/count_tokens", messages.count_tokens, "Tokens",
        body=PromptBody, answer=TokenCount, error=MessageErrorBody,
        errors=(*BODY_ERRORS, 404), example={"model": "MODEL", "messages": [TURN]},
    ),
    Operation(
        "POST", "/v1/embeddings", embeddings.create_embeddings, "Generation",
        body=EmbeddingBody, answer=EmbeddingList,
        errors=GENERATION_ERRORS, parameters=GENERATION_HEADERS, example={"input": "Hello"},
    ),
    Operation("GET", "/v1/models", models.list_models, "Models", ModelList),
    Operation(
        "GET", "/v1/models/{model_id:path}", models.retrieve_model, "Models", ModelCard,
        errors=(404,), parameters=(Parameter("model_id", "path", str, "The model's name."),),
    ),
    Operation(
        "POST", "/tokenize", tokenization.tokenize, "Tokens", TokenizeResponse,
        body=(TokenizeChatBody, TokenizeCompletionBody),
        errors=(*BODY_ERRORS, 404), example={"prompt": "Hello"},
    ),
    Operation(
        "POST", "/detokenize", tokenization.detokenize, "Tokens", DetokenizeResponse,
        body=DetokenizeBody, errors=(*BODY_ERRORS, 404), example={"tokens": [1, 2, 3]},
    ),
    Operation("GET", "/health", operations.health, "Probes", ANYTHING, statuses=(200, 503)),
    Operation("GET", "/ready", operations.ready, "Probes", ANYTHING, statuses=(200, 503)),
    Operation("GET", "/version", operations.version, "Probes", ANYTHING),
    Operation(
        "GET", "/metrics", operations.metrics, "Probes", str, media_type="text/plain"
    ),
    Operation("GET", "/openapi.json", documentation.openapi, "Probes", ANYTHING),
    Operation("GET", "/docs", documentation.docs, "Probes", str, media_type="text/html"),
    Operation("GET", "/cluster", operations.cluster, "Operation", ANYTHING),
    Operation(
        "GET", "/cluster/decisions", administration.decisions, "Operation", ANYTHING, errors=(400,),
        parameters=(
            Parameter("n", "query", Annotated[int, Meta(ge=1, le=MOST_DECISIONS)], "How many."),
        ),
    ),
    Operation(
        "GET", "/cluster/operation", administration.operation, "Operation", ANYTHING, errors=(400,)
    ),
    *(
        Operation(
            "POST", path, route, "Operation", ANYTHING,
            body=ANYTHING, statuses=(202,), errors=(*BODY_ERRORS, 409), example=example,
        )
        for path, route, example in (
            ("/cluster/drain", administration.drain, {"engine": 0}),
            ("/cluster/restart", administration.restart, {"rolling": True}),
            ("/cluster/scale", administration.scale, {"engines": 2}),
        )
    ),
    Operation(
        "POST", "/reset_prefix_cache", operations.reset_prefix_cache, "Operation", ANYTHING,
        statuses=(200, 503),
    ),
]  # fmt: skip
"""One row a route."""
