"""The ASGI application: routes, middleware, errors."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from cluster.config import ClusterConfig
from cluster.errors import ClusterError
from cluster.telemetry.metrics import counter
from frontend.cross_origin import CrossOrigin
from frontend.engine_client import EngineClient
from frontend.input_processor import InputProcessor
from frontend.middleware import ErrorBoundary, Keys, RequestCounting, RequestIds
from frontend.model_info import ModelInfo
from frontend.openai.errors import answer_error
from frontend.openapi.documentation import make_documentation
from frontend.request_limits import RequestLimits
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
from frontend.services import Services
from frontend.tokenizer import Tokenizer
from frontend.worker_threads import WorkerThreads

TOKENIZING_AHEAD = 8
"""Prompts that wait for a thread already chosen, each a millisecond or so: a tenant whose turn it is
waits for these, and the threads go on while the event loop is busy."""

ROUTES = [
    Route("/v1/chat/completions", generation.create_chat_completion, methods=["POST"]),
    Route("/v1/completions", generation.create_completion, methods=["POST"]),
    Route("/v1/embeddings", embeddings.create_embeddings, methods=["POST"]),
    Route("/v1/responses", responses.create_response, methods=["POST"]),
    Route("/v1/messages", messages.create_message, methods=["POST"]),
    Route("/v1/messages/count_tokens", messages.count_tokens, methods=["POST"]),
    Route("/v1/models", models.list_models),
    Route("/v1/models/{model_id:path}", models.retrieve_model),
    Route("/tokenize", tokenization.tokenize, methods=["POST"]),
    Route("/detokenize", tokenization.detokenize, methods=["POST"]),
    Route("/health", operations.health),
    Route("/ready", operations.ready),
    Route("/version", operations.version),
    Route("/metrics", operations.metrics),
    Route("/openapi.json", documentation.openapi),
    Route("/docs", documentation.docs),
    Route("/cluster", operations.cluster),
    Route("/cluster/decisions", administration.decisions),
    Route("/cluster/operation", administration.operation),
    Route("/cluster/drain", administration.drain, methods=["POST"]),
    Route("/cluster/restart", administration.restart, methods=["POST"]),
    Route("/cluster/scale", administration.scale, methods=["POST"]),
    Route("/reset_prefix_cache", operations.reset_prefix_cache, methods=["POST"]),
]


def build_app(
    config: ClusterConfig, model: ModelInfo, tokenizer: Tokenizer, client: EngineClient
) -> Starlette:
    """The application that answers for `client`, which the caller starts and stops."""
    services = Services(
        config=config,
        model=model,
        tokenizer=tokenizer,
        client=client,
        inputs=InputProcessor(config, model, tokenizer),
        tokenizing=WorkerThreads(
            config.frontend.tokenizer_threads, "tokenizing", num_ahead=TOKENIZING_AHEAD
        ),
        scraping=WorkerThreads(1, "scraping"),
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            services.tokenizing.close()
            services.scraping.close()

    app = Starlette(
        routes=ROUTES,
        middleware=[
            Middleware(RequestCounting, counter=counter("http_requests")),
            Middleware(RequestIds),
            Middleware(CrossOrigin, settings=config.frontend),
            Middleware(ErrorBoundary),
            Middleware(
                Keys, api_keys=config.frontend.api_key, admin_keys=config.frontend.admin_key
            ),
        ],
        exception_handlers={ClusterError: answer_error, HTTPException: answer_error},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.services = services
    app.state.documentation = make_documentation(RequestLimits.of(config.frontend))
    return app
