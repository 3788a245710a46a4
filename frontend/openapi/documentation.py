"""The document and the page, made once for a configuration."""

from functools import cache
from typing import NamedTuple

import msgspec

from frontend.openapi.document import openapi_document
from frontend.openapi.operations import OPERATIONS
from frontend.openapi.page import page_of
from frontend.request_limits import RequestLimits
from frontend.routes.operations import VERSION


class Documentation(NamedTuple):
    """What is said of the surface, ready to be sent."""

    openapi: bytes
    page: str


@cache
def make_documentation(limits: RequestLimits) -> Documentation:
    """The documentation of all operations of a server with these limits."""
    document = openapi_document(OPERATIONS, VERSION, limits.of_lists)
    return Documentation(msgspec.json.encode(document), page_of(document))
