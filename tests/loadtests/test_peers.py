"""The `peers` command: its flags, its turns over real servers, its exit codes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.arguments import Address
from loadtests.cli import main
from loadtests.peers import Command, Demand, problem_of
from tests.clients.ports import free_ports
from tests.loadtests.peers_lab.tiny_peer import command_line, servers_at
from tests.loadtests.scripted_server import ScriptedServer, chunk, usage
from tests.support.waiting import wait_until

THREE_TOKENS = [chunk([1]), chunk([2]), chunk([3], finish="length"), usage(3), "[DONE]"]
SMALL = ["--requests", "4", "--concurrency", "2", "--input-tokens", "8", "--output-tokens", "3"]


async def peers(*flags: str) -> int:
    return await asyncio.to_thread(main, ["peers", *SMALL, *flags])


def turns_in(file: Path) -> list[tuple[int, str]]:
    return [(turn["round"], turn["server"]) for turn in json.loads(file.read_bytes())["turns"]]


async def test_all_servers_are_asked_the_same_there_and_back_again(tmp_path: Path) -> None:
    report, page = tmp_path / "peers.json", tmp_path / "peers.md"
    async with ScriptedServer(THREE_TOKENS).running() as a, ScriptedServer(THREE_TOKENS).running() as b:  # fmt: skip
        servers = ["--server", f"ours={a.url}", "--server", f"theirs={b.url}"]
        files = ["--json", str(report), "--markdown", str(page)]
        assert await peers(*servers, "--rounds", "2", *files) == 0
    assert turns_in(report) == [(0, "ours"), (0, "theirs"), (1, "theirs"), (1, "ours")]
    asked = [sorted(body["prompt"] for body in server.bodies) for server in (a, b)]
    assert asked[0] == asked[1]
    assert len({tuple(prompt) for prompt in asked[0]}) == 2 * (2 + 4)
    assert "| ours / theirs |" in page.read_text()


async def test_of_three_servers_the_order_is_turned_around_each_round(tmp_path: Path) -> None:
    report = tmp_path / "peers.json"
    async with ScriptedServer(THREE_TOKENS).running() as server:
        servers = [word for name in "abc" for word in ("--server", f"{name}={server.url}")]
        assert await peers(*servers, "--rounds", "2", "--json", str(report)) == 0
    assert [name for _, name in turns_in(report)] == ["a", "b", "c", "c", "b", "a"]


@pytest.mark.parametrize(("ratio", "code"), [("0.0001", 0), ("10000", 1)])
async def test_a_missed_line_is_exit_code_1(
    ratio: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ScriptedServer(THREE_TOKENS).running() as server:
        servers = ["--server", f"ours={server.url}", "--server", f"theirs={server.url}"]
        assert await peers(*servers, "--rounds", "1", "--line", f"theirs={ratio}") == code
    assert f"at least {float(ratio):g}" in capsys.readouterr().out


async def test_json_on_standard_output_is_alone_there(capsys: pytest.CaptureFixture[str]) -> None:
    async with ScriptedServer(THREE_TOKENS).running() as server:
        assert await peers("--server", f"ours={server.url}", "--rounds", "1", "--json", "-") == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["candidate"] == "ours"
    assert shown.err.startswith("round 1, ours: ")


async def test_servers_started_in_turn_can_share_a_port(tmp_path: Path) -> None:
    report, [port] = tmp_path / "peers.json", free_ports(1)
    flags = [
        word
        for name in ("one", "two")
        for word in ("--server", f"{name}=http://127.0.0.1:{port}",
                     "--start", f"{name}={command_line(port)}")
    ]  # fmt: skip
    assert await peers(*flags, "--rounds", "2", "--json", str(report)) == 0
    for summary in json.loads(report.read_bytes())["summaries"]:
        assert summary["figures"]["start_seconds"]["lowest"] > 0
        assert summary["figures"]["memory_bytes"]["lowest"] > 2**20
    assert not servers_at(port)


async def test_a_server_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert await peers("--server", "gone=http://127.0.0.1:1") == 1
    error = capsys.readouterr().err
    assert error.startswith("gone: http://127.0.0.1:1: ")
    assert error.count("\n") == 1


def test_sigterm_ends_the_server_that_was_started() -> None:
    [port] = free_ports(1)
    words = [sys.executable, "-m", "loadtests", "peers", "--server", f"a=http://127.0.0.1:{port}"]
    words += ["--start", f"a={command_line(port, '--models-status=503')}"]
    command = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: servers_at(port), 30)
        command.terminate()
        assert command.communicate(timeout=20)[1] == "interrupted\n"
        assert command.returncode == 130
        assert not servers_at(port)
    finally:
        command.kill()
        command.wait()
        for pid in servers_at(port):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "flags",
    [
        ["--server", "no-sign"],
        ["--server", "=http://x"],
        ["--server", "a=ftp://x"],
        ["--start", "a="],
        ["--start", "a='open"],
        ["--line", "a=0"],
        ["--line", "a=much"],
        ["--rounds", "0"],
    ],
    ids=" ".join,
)
def test_wrong_flags_are_refused_by_name(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["peers", "--server", "x=http://127.0.0.1:1", *flags])
    assert ended.value.code == 2
    assert flags[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags",
    [["--server", "a=http://127.0.0.1:1"], ["--start", "b=true"], ["--line", "a=1"], ["--line", "b=1"]],
    ids=" ".join,
)  # fmt: skip
def test_flags_that_do_not_go_together_are_wrong_usage(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["peers", "--server", "a=http://127.0.0.1:1", *flags]) == 2
    assert capsys.readouterr().err.startswith(f"{flags[0]} {flags[1][0]}: ")


def test_flags_that_go_together_have_no_problem() -> None:
    servers = [Address("a", "http://x"), Address("b", "http://y")]
    assert problem_of(servers, [Command("b", ("true",))], [Demand("b", 1.5)]) is None
