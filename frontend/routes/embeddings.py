"""POST /v1/embeddings."""

from starlette.requests import Request
from starlette.responses import Response

from frontend.embeddings.inputs import EmbeddingInputs
from frontend.embeddings.response import EmbeddingResponse
from frontend.embeddings.schemas import EmbeddingBody
from frontend.routes.respond import read_and_prepare
from frontend.services import services_of


async def create_embeddings(request: Request) -> Response:
    """The vectors of one or several texts."""
    services = services_of(request)
    prepare = EmbeddingInputs(services).prepare
    body, requests = await read_and_prepare(request, EmbeddingBody, prepare)
    return EmbeddingResponse(services, body, requests)
