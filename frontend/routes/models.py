"""GET /v1/models and /v1/models/{id}."""

from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response

from frontend.openai.responses import ModelCard, ModelList
from frontend.routes.json_response import json_response
from frontend.services import Services, services_of

CREATED = 1_735_689_600
"""Constant, so that all frontends and all restarts say the same."""


async def list_models(request: Request) -> Response:
    """All served models: one."""
    return json_response(ModelList(data=[_model_card(services_of(request))]))


async def retrieve_model(request: Request) -> Response:
    """The served model, if it is the one asked for."""
    services = services_of(request)
    services.inputs.check_model(request.path_params["model_id"])
    return json_response(_model_card(services))


def _model_card(services: Services) -> ModelCard:
    model = services.model
    return ModelCard(
        id=model.name,
        created=CREATED,
        root=model.name,
        max_model_len=model.max_model_len,
        simulated=True if services.config.engine.engine == "simulated" else UNSET,
    )
