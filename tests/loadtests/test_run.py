import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from loadtests import http_client
from loadtests.cli import build_parser, main
from loadtests.client import StreamingClient
from loadtests.http_client import BrokenConnection, HttpClient
from loadtests.record import RequestRecord
from loadtests.run import RunOptions, run
from loadtests.workload import Ask
from tests.loadtests.scripted_server import ScriptedServer, chunk, usage

THREE_TOKENS = [chunk([1]), chunk([2]), chunk([3], finish="length"), usage(3), "[DONE]"]
OPTIONS = RunOptions(
    url="",
    api_key=None,
    model=None,
    requests=10,
    concurrency=4,
    rate_per_second=None,
    input_tokens=4,
    output_tokens=3,
    prefix_share=0.0,
    vocabulary_size=100,
    prompts=None,
    chat=False,
    seed=0,
    timeout_seconds=30.0,
)


async def answer(
    events: Sequence[str], status: int = 200, breaks_off: bool = False
) -> RequestRecord:
    async with ScriptedServer(events, status, breaks_off).running() as server:
        client = StreamingClient(HttpClient(server.url), timeout_seconds=30.0)
        return await client.complete(Ask("/v1/completions", b"{}"), due_at=0.0)


@asynccontextmanager
async def raw_server(reply: bytes | None) -> AsyncIterator[str]:
    """The URL of a server that answers with these bytes, or with None not at all."""
    is_over = asyncio.Event()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if reply is None:
            await is_over.wait()
        else:
            writer.write(reply)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        is_over.set()


async def test_a_run_counts_what_clients_got_and_what_the_server_says() -> None:
    async with ScriptedServer(THREE_TOKENS).running() as server:
        report = await run(OPTIONS._replace(url=server.url))
    assert report.completed == 10
    assert report.output_tokens == 30
    assert report.engine_tokens == {"0": 30, "1": 0}
    assert report.model == "tiny"
    assert not report.errors
    assert server.most_in_flight <= 4


async def test_a_run_with_a_rate_sends_everything_too() -> None:
    async with ScriptedServer(THREE_TOKENS).running() as server:
        report = await run(OPTIONS._replace(url=server.url, rate_per_second=1000.0))
    assert report.completed == 10
    assert report.load == "1000 a second (Poisson)"


async def test_a_refusal_is_an_error_of_its_status_and_code() -> None:
    body = json.dumps({"error": {"message": "leaving", "code": "not_serving"}})
    record = await answer([body], status=503)
    assert record.error_kind == "HTTP 503 not_serving"


async def test_a_connection_that_breaks_in_mid_stream_is_an_error() -> None:
    record = await answer(THREE_TOKENS[:2], breaks_off=True)
    assert record.error_kind == "broken connection"
    assert record.output_tokens == 2


async def test_a_server_that_is_not_there_is_an_error_of_the_run() -> None:
    async with ScriptedServer([]).running() as server:
        gone = server.url
    with pytest.raises(BrokenConnection):
        await run(OPTIONS._replace(url=gone))


async def test_the_command_exits_with_0_only_when_every_answer_was_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report_file = tmp_path / "report.json"
    flags = ["--requests", "3", "--output-tokens", "3", "--json", str(report_file)]
    async with ScriptedServer(THREE_TOKENS).running() as server:
        assert await asyncio.to_thread(main, ["run", "--url", server.url, *flags]) == 0
    assert json.loads(report_file.read_bytes())["completed"] == 3
    assert "3 of 3 completed" in capsys.readouterr().out

    async with ScriptedServer(THREE_TOKENS[:2]).running() as server:
        assert await asyncio.to_thread(main, ["run", "--url", server.url, *flags]) == 1
    assert json.loads(report_file.read_bytes())["errors"] == {"stream ended early": 3}


@pytest.mark.parametrize("reply", [b"garbage\r\n\r\n", b"\r\n\r\n", b"HTTP/1.1 x\r\n\r\n", b""])
async def test_what_is_no_http_is_a_broken_connection(reply: bytes) -> None:
    async with raw_server(reply) as url:
        client = StreamingClient(HttpClient(url), timeout_seconds=30.0)
        record = await client.complete(Ask("/v1/completions", b"{}"), due_at=0.0)
        assert record.error_kind == "broken connection"


async def test_a_server_that_accepts_and_says_nothing_holds_up_no_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_client, "GET_SECONDS", 0.1)
    async with raw_server(None) as url:
        with pytest.raises(BrokenConnection, match="/v1/models is not answered within"):
            await run(OPTIONS._replace(url=url))


def test_the_command_says_in_one_line_that_nobody_is_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "--url", "http://127.0.0.1:1", "--requests", "1"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("http://127.0.0.1:1: ")
    assert error.count("\n") == 1


def test_a_prompts_file_that_is_not_there_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "missing"
    assert main(["run", "--model", "tiny", "--prompts", str(missing)]) == 2
    assert str(missing) in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags",
    [
        ["--requests", "0"],
        ["--rate", "nan"],
        ["--prefix-share", "1.5"],
        ["--url", "ftp://x"],
        ["--json", "/no/such/folder/report.json"],
        ["--rate", "1", "--concurrency", "1"],
    ],
    ids=" ".join,
)
def test_wrong_flags_are_refused_by_name(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        build_parser().parse_args(["run", *flags])
    assert exit_info.value.code == 2
    assert flags[0] in capsys.readouterr().err
