"""Operation over HTTP: who may, what is answered, and that the launcher is asked."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from cluster.config import ClusterConfig, FrontendConfig
from cluster.errors import ControlError, OperationConflict
from cluster.launch.control_server import ControlServer
from cluster.launch.operation import Drain, Operation, Restart, Scale
from cluster.launch.operation_book import Ticket
from cluster.launch.status import ClusterStatus
from cluster.wire.endpoints import Endpoints
from cluster.wire.sockets import Context
from frontend import launcher_link
from frontend.app import build_app
from tests.support.frontend_app import MODEL, client_of_app, engine_that_says
from tests.support.tiny_tokenizer import tiny_tokenizer

ADMIN = {"Authorization": "Bearer boss"}


@asynccontextmanager
async def http_client(run_directory: Path, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    config = ClusterConfig(frontend=FrontendConfig(**settings), run_directory=str(run_directory))
    engine = engine_that_says("hello")
    app = build_app(config, MODEL, tiny_tokenizer(), engine)
    async with client_of_app(app) as client:
        yield client
    await engine.close()


class Launcher:
    """The launcher's end of the control socket, and what it was asked."""

    def __init__(self, context: Context, run_directory: Path) -> None:
        self.begun: list[Operation] = []
        self.refusal: ControlError | None = None
        self._server = ControlServer(
            context,
            Endpoints(run_directory),
            self._status,
            lambda _: None,
            self._begin,
            lambda: None,
        )

    def _status(self) -> ClusterStatus:
        return ClusterStatus("t", "http://x", 1, "ready", 0.0, "m", "/run", [], "rolling restart")

    def _begin(self, operation: Operation) -> Ticket:
        if self.refusal is not None:
            raise self.refusal
        self.begun.append(operation)
        return Ticket(len(self.begun), operation.words, is_new=True)

    def close(self) -> None:
        self._server.close()


@pytest.fixture
async def launcher(context: Context, tmp_path: Path) -> AsyncIterator[Launcher]:
    launcher = Launcher(context, tmp_path)
    yield launcher
    launcher.close()


async def test_operations_are_passed_on_and_answered_202(
    launcher: Launcher, tmp_path: Path
) -> None:
    async with http_client(tmp_path, admin_key=["boss"]) as client:
        for verb, body in (
            ("drain", {"engine": 1, "deadline": 30}),
            ("restart", {"rolling": True}),
            ("scale", {"engines": 4, "frontends": 2}),
        ):
            response = await client.post(f"/cluster/{verb}", json=body, headers=ADMIN)
            assert response.status_code == 202
            assert response.json()["is_new"]
        again = await client.post("/cluster/scale", json={"engines": 4}, headers=ADMIN)
        assert again.json() == {"number": 4, "operation": "scale to 4 engines", "is_new": True}
        assert launcher.begun == [
            Drain(1, 30.0), Restart(rolling=True), Scale(4, 2), Scale(4),
        ]  # fmt: skip
        response = await client.get("/cluster/operation", headers=ADMIN)
        assert response.json() == {"operation": "rolling restart", "last_operation": None}


async def test_bad_fields_are_400_and_name_the_limit(launcher: Launcher, tmp_path: Path) -> None:
    async with http_client(tmp_path, admin_key=["boss"]) as client:
        for verb, body, complaint in (
            ("drain", {}, "drain: engine is required"),
            ("scale", {"engines": 0}, "scale: engines: expected `int` >= 1"),
            ("restart", {"engine": 1, "rolling": True}, "restart: give exactly one of"),
            ("drain", {"engine": 1, "note": "x" * 5000}, "the limit is 4096"),
            ("drain", [1], "the body: expected `object`"),
        ):
            response = await client.post(f"/cluster/{verb}", json=body, headers=ADMIN)
            assert response.status_code == 400
            assert complaint in response.json()["error"]["message"]
        assert launcher.begun == []


async def test_a_conflict_is_409_and_another_refusal_400(
    launcher: Launcher, tmp_path: Path
) -> None:
    async with http_client(tmp_path, admin_key=["boss"]) as client:
        refusals = ((OperationConflict("not now"), 409), (ControlError("engine 9 is not"), 400))
        for launcher.refusal, status in refusals:
            response = await client.post("/cluster/drain", json={"engine": 9}, headers=ADMIN)
            assert response.status_code == status
            assert response.json()["error"]["message"] == str(launcher.refusal)


async def test_a_launcher_that_does_not_answer_is_503_and_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher_link, "ANSWER_SECONDS", 0.3)
    async with http_client(tmp_path, admin_key=["boss"]) as client:
        asked = asyncio.create_task(
            client.post("/cluster/drain", json={"engine": 1}, headers=ADMIN)
        )
        assert (await client.get("/version")).status_code == 200
        assert not asked.done()
        response = await asked
        assert response.status_code == 503
        assert "launch does not answer within 0.3 s" in response.json()["error"]["message"]


async def test_decisions_are_shown_the_newest_first_and_no_more_than_asked_for(
    tmp_path: Path,
) -> None:
    async with http_client(tmp_path, admin_key=["boss"]) as client:
        for _ in range(3):
            body = {"prompt": "Hi", "max_tokens": 1}
            await client.post("/v1/completions", json=body, headers=ADMIN)
        every = (await client.get("/cluster/decisions", headers=ADMIN)).json()["decisions"]
        assert len({decision["request_id"] for decision in every}) == 3
        last = await client.get("/cluster/decisions?n=2", headers=ADMIN)
        assert last.json()["decisions"] == every[:2]


@pytest.mark.parametrize("number", ["0", "-1", "many", "1001", "1.5", ""])
async def test_a_wrong_number_of_decisions_is_400_and_names_the_limit(
    tmp_path: Path, number: str
) -> None:
    async with http_client(tmp_path, admin_key=["boss"]) as client:
        response = await client.get(f"/cluster/decisions?n={number}", headers=ADMIN)
        assert response.status_code == 400
        assert "from 1 to 1000" in response.json()["error"]["message"]


async def test_decisions_need_an_admin_key(tmp_path: Path) -> None:
    async with http_client(tmp_path, admin_key=["boss"], api_key=["user"]) as client:
        user = {"Authorization": "Bearer user"}
        assert (await client.get("/cluster/decisions")).status_code == 401
        assert (await client.get("/cluster/decisions", headers=user)).status_code == 403


async def status_of(client: httpx.AsyncClient, path: str, key: str | None) -> int:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    if path == "/v1/models":
        return (await client.get(path, headers=headers)).status_code
    return (await client.post(path, json={"engine": 1}, headers=headers)).status_code


@pytest.mark.parametrize(
    ("settings", "key", "models", "drain"),
    [
        ({}, None, 200, 403),
        ({}, "boss", 200, 403),
        ({"api_key": ["user"]}, "user", 200, 403),
        ({"api_key": ["user"]}, None, 401, 403),
        ({"admin_key": ["boss"]}, None, 200, 401),
        ({"admin_key": ["boss"]}, "wrong", 200, 401),
        ({"admin_key": ["boss"]}, "", 200, 401),
        ({"admin_key": ["boss"]}, "boss", 200, 202),
        ({"api_key": ["user"], "admin_key": ["chief", "boss"]}, "user", 200, 403),
        ({"api_key": ["user"], "admin_key": ["chief", "boss"]}, "wrong", 401, 401),
        ({"api_key": ["user"], "admin_key": ["chief", "boss"]}, "boss", 200, 202),
    ],
)
async def test_keys_open_what_they_are_for(
    launcher: Launcher,
    tmp_path: Path,
    settings: dict[str, list[str]],
    key: str | None,
    models: int,
    drain: int,
) -> None:
    async with http_client(tmp_path, **settings) as client:
        assert await status_of(client, "/v1/models", key) == models
        assert await status_of(client, "/cluster/drain", key) == drain
    assert len(launcher.begun) == (drain == 202)
