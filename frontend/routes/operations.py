"""Health, versions, metrics, the cluster and its caches: for probes, dashboards and operators."""

import importlib.metadata
import os

from starlette.requests import Request
from starlette.responses import Response

from cluster.telemetry.metrics import CONTENT_TYPE, DIRECTORY_VARIABLE, render_metrics
from frontend.cluster_view import EngineCounts
from frontend.engine_client import EngineClient
from frontend.routes.json_response import json_response
from frontend.services import services_of

RETRY_AFTER_SECONDS = 1
VERSION = importlib.metadata.version("quadriga")


async def health(request: Request) -> Response:
    """Whether this server is alive: 503 while it is leaving, or when no engine is left or coming."""
    client = services_of(request).client
    state, counts = _state(client), client.engine_counts
    return json_response(
        {"status": state, **_describe(counts)},
        503 if state == "draining" or client.are_all_engines_dead else 200,
    )


async def ready(request: Request) -> Response:
    """Whether a new request would be served: 200 as soon as one engine is ready."""
    client = services_of(request).client
    state, counts = _state(client), client.engine_counts
    body = {"status": "ready" if state == "ok" else state, **_describe(counts)}
    if state in ("draining", "unavailable"):
        return json_response(body, 503, {"Retry-After": str(RETRY_AFTER_SECONDS)})
    return json_response(body)


async def version(_: Request) -> Response:
    """The version of this server."""
    return json_response({"version": VERSION})


async def metrics(request: Request) -> Response:
    """The metrics of the whole cluster, in the Prometheus text format."""
    services = services_of(request)
    text = await services.scraping.run(render_metrics, os.environ[DIRECTORY_VARIABLE])
    return Response(text, media_type=CONTENT_TYPE)


async def cluster(request: Request) -> Response:
    """The state of every process as this frontend sees it, and what bounds an engine's steps."""
    services = services_of(request)
    engine = services.config.engine
    steps = {
        "max_num_batched_tokens": engine.max_num_batched_tokens,
        "prefill_chunk_while_decoding": engine.prefill_chunk_while_decoding,
    }
    return json_response({**services.client.describe(), "engine_steps": steps})


async def reset_prefix_cache(request: Request) -> Response:
    """Forget every cached prefix: 503 if an engine is in use, and then all of its cache stays."""
    results = await services_of(request).client.call_engines("reset_prefix_cache")
    are_reset = {str(rank): result.result == "true" for rank, result in sorted(results.items())}
    return json_response({"engines": are_reset}, 200 if all(are_reset.values()) else 503)


def _state(client: EngineClient) -> str:
    counts = client.engine_counts
    if client.is_draining:
        return "draining"
    if counts.ready == 0:
        return "unavailable"
    return "degraded" if counts.ready < counts.total else "ok"


def _describe(counts: EngineCounts) -> dict[str, int]:
    return {
        "ready_engines": counts.ready,
        "engines": counts.total,
        "draining_engines": counts.draining,
        "parked_engines": counts.parked,
    }
