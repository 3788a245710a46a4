"""The table of operations and the routes say the same."""

import pytest

from frontend.app import ROUTES
from frontend.openapi.operation import Operation
from frontend.openapi.operations import OPERATIONS
from tests.support.frontend_app import ANSWER, engine_that_says, http_client


def test_every_route_has_one_row_and_every_row_a_route() -> None:
    routed = [
        (method, route.path, route.endpoint)
        for route in ROUTES
        for method in (route.methods or set()) - {"HEAD"}
    ]
    told = [(operation.method, operation.path, operation.route) for operation in OPERATIONS]
    assert len(set(told)) == len(told)
    assert set(told) == set(routed)


def test_names_in_the_document_are_unique() -> None:
    names = [operation.route.__name__ for operation in OPERATIONS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda row: f"{row.method} {row.path}")
async def test_an_operation_needs_the_key_that_its_row_says(operation: Operation) -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine, api_key=["plain"], admin_key=["admin"]) as client:
        statuses = [
            (
                await client.request(operation.method, operation.template, headers=headers)
            ).status_code
            for headers in ({}, {"authorization": "Bearer plain"})
        ]
    refused = {"nothing": (False, False), "key": (True, False), "admin key": (True, True)}
    assert tuple(status in (401, 403) for status in statuses) == refused[operation.needs]


@pytest.mark.parametrize(
    "operation",
    [operation for operation in OPERATIONS if operation.body and operation.needs == "key"],
    ids=lambda row: row.path,
)
async def test_the_example_of_an_operation_is_served(operation: Operation) -> None:
    assert operation.example is not None
    body = {**operation.example}
    if "model" in body:
        body["model"] = "tiny"
    async with http_client(engine_that_says(ANSWER)) as client:
        answer = await client.post(operation.template, json=body)
    assert answer.status_code in operation.statuses, answer.text
