"""The command line: help that is complete, errors that are one line, nothing spawned for them."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.errors import ConfigError
from cluster.launch.cli import build_parser, read_config
from cluster.launch.exit_codes import ExitCode
from cluster.launch.settings import list_settings
from cluster.launch.supervisor import STOP_SIGNALS


def launch(*flags: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """`python -m cluster.launch` in a working directory of its own."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "cluster.launch", *flags],
        check=False,
        cwd=folder,
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder), "XDG_CACHE_HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_help_shows_every_setting_with_its_default() -> None:
    text = " ".join(build_parser().format_help().split())
    for setting in list_settings():
        for flag in setting.flags:
            assert flag in text
        assert setting.heading in text
        assert " ".join(setting.description.split()) in text
    assert "A whole number from 0 to 65535. Default: 8000." in text


def test_every_spelling_of_a_flag_works() -> None:
    for flag in ("--dp", "-dp", "--data-parallel-size"):
        assert read_config([flag, "3"]).engine.data_parallel_size == 3
    assert read_config(["--dp=3"]).engine.data_parallel_size == 3
    assert read_config(["--api-server-count", "2"]).num_frontends == 2
    assert not read_config(["--no-enable-prefix-caching"]).engine.enable_prefix_caching
    assert read_config(["--api-key", "a,b", "--api-key", "c"]).frontend.api_key == ["a,b", "c"]


def test_a_list_may_be_one_in_json_wherever_it_comes_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = '["https://a.example", "https://b.example"]'
    origins = ["https://a.example", "https://b.example"]
    assert read_config([]).frontend.allowed_origins == ["*"]
    assert read_config(["--allowed-origins", both]).frontend.allowed_origins == origins
    assert read_config(
        ["--allowed-origins", origins[0], "--allowed-origins", origins[1]]
    ).frontend.allowed_origins == origins  # fmt: skip
    monkeypatch.setenv("QUADRIGA_ALLOWED_ORIGINS", both)
    assert read_config([]).frontend.allowed_origins == origins
    monkeypatch.setenv("QUADRIGA_ALLOWED_ORIGINS", ",".join(origins))
    assert read_config([]).frontend.allowed_origins == origins


def test_files_that_are_not_there_are_one_line(tmp_path: Path) -> None:
    for flag in ("--api-key-file", "--admin-key-file", "--ssl-certfile"):
        result = launch(flag, "/nowhere", folder=tmp_path)
        assert result.returncode == ExitCode.BAD_SETTING
        assert (
            result.stderr == f"launch: {flag} /nowhere cannot be read: No such file or directory\n"
        )


def test_command_line_wins_over_environment_over_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text("[engine]\nmax_num_seqs = 1\nblock_size = 1\n[launch]\nmax_restarts = 1\n")
    monkeypatch.setenv("QUADRIGA_MAX_NUM_SEQS", "2")
    monkeypatch.setenv("QUADRIGA_BLOCK_SIZE", "2")
    config = read_config(["--config", str(file), "--max-num-seqs", "3"])
    assert config.engine.max_num_seqs == 3
    assert config.engine.block_size == 2
    assert config.launch.max_restarts == 1


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--prot", "1"], r"no flag --prot \(did you mean --port\?\)"),
        (["--model-", "x"], "no flag --model-"),
        (["--max-num", "3"], "no flag --max-num"),
        (["stray"], "no flag stray"),
        (["--port"], "--port: expected one argument"),
        (["--port", "-1"], "--port must be a whole number from 0 to 65535, not -1"),
        (["--max-num-batched-tokens", "8"], "--max-num-batched-tokens 8 must be at least"),
    ],
)
def test_a_wrong_command_line_is_refused(flags: list[str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        read_config(flags)


def test_a_wrong_flag_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    result = launch("--port", "http", folder=tmp_path)
    assert result.returncode == ExitCode.BAD_SETTING
    assert result.stdout == ""
    assert result.stderr == "launch: --port must be a whole number from 0 to 65535, not 'http'\n"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_no_model_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    result = launch("--port", "0", "--device", "cpu", "--model", "somewhere", folder=tmp_path)
    assert result.returncode == ExitCode.BAD_SETTING
    assert result.stderr == f"launch: --model {tmp_path}/somewhere is not a folder\n"
    assert list(tmp_path.iterdir()) == []


def test_a_home_that_is_nobodys_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    result = launch("--port=0", "--model", "~no-such-user/model", folder=tmp_path)
    assert result.returncode == ExitCode.BAD_SETTING
    assert result.stderr.startswith("launch: --model '~no-such-user/model' is not a folder: ")
    assert result.stderr.count("\n") == 1


def test_a_port_in_use_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        result = launch("--port", port, "--device", "cpu", folder=tmp_path)
    assert result.returncode == ExitCode.BAD_SETTING
    assert result.stderr == (
        f"launch: --host 127.0.0.1 --port {port} cannot be used: Address already in use\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_help_is_no_error(tmp_path: Path) -> None:
    result = launch("--help", folder=tmp_path)
    assert result.returncode == ExitCode.OK
    assert result.stderr == ""


def test_a_slip_in_the_environment_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUADRIGA_PROT", "1")
    result = launch("--device", "cpu", "--host", "203.0.113.7", folder=tmp_path)
    assert result.stderr.startswith("launch: the environment's QUADRIGA_PROT is no setting\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_no_second_signal_aborts_the_clean_up(number: signal.Signals) -> None:
    script = (
        "import os, signal, sys, time\n"
        "from cluster.launch.cli import to_exit_code\n"
        "def run():\n"
        "    try:\n"
        f"        os.kill(os.getpid(), {number:d})\n"
        "        time.sleep(10)\n"
        "    finally:\n"
        "        for second in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):\n"
        "            os.kill(os.getpid(), second)\n"
        "        print('clean')\n"
        "sys.exit(to_exit_code(run))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=20, check=False
    )
    assert (result.stdout, result.stderr) == ("clean\n", "")
    assert result.returncode == STOP_SIGNALS[number]
