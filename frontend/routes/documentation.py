"""GET /openapi.json and /docs: what this server takes and answers, for programs and for people."""

from starlette.requests import Request
from starlette.responses import Response


async def openapi(request: Request) -> Response:
    """This surface as an OpenAPI 3.1 document."""
    return Response(request.app.state.documentation.openapi, media_type="application/json")


async def docs(request: Request) -> Response:
    """This surface as a page to read."""
    return Response(request.app.state.documentation.page, media_type="text/html")
