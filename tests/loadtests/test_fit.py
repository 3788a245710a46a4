"""A cost model from what a cluster says it has measured."""

import argparse
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster.wire.messages import (
    PROTOCOL_VERSION,
    ClusterView,
    EngineEntry,
    EngineHello,
    EnginePhase,
    EngineState,
    LoadReport,
)
from frontend.cluster_description import describe_engines
from frontend.cluster_view import LiveView
from loadtests.fit import FitError, add_arguments, fit_description, main
from loadtests.simulation.cost_model import CostModel, read_cost_model

STEPS = {"max_num_batched_tokens": 512, "prefill_chunk_while_decoding": 128}


def engine(step_seconds: float = 0.02, **fields: Any) -> dict[str, Any]:
    load = {
        "prefill_tokens_per_second": 40 / step_seconds,
        "decode_seconds_per_step": step_seconds,
        "decode_seconds_per_request": 0.001,
        "decode_seconds_per_kv_token": 1e-6,
    }
    return {"load": load, "max_num_seqs": 64, "block_size": 16, "num_blocks": 100} | fields


def described(*engines: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"engines": engines, "engine_steps": STEPS, "draining": False})


@contextmanager
def server_that_answers(body: bytes) -> Iterator[str]:
    """The URL of a server that answers every GET like this."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/cluster" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def run_fit(*flags: str) -> int:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return main(parser.parse_args(flags))


def test_the_engine_in_the_middle_is_what_is_written() -> None:
    found = fit_description(described(engine(0.02), engine(0.021), engine(0.5)))
    assert found.num_engines == 3
    assert found.cost_model == CostModel(
        decode_seconds_per_step=0.021,
        decode_seconds_per_request=0.001,
        decode_seconds_per_kv_token=1e-6,
        prefill_tokens_per_second=40 / 0.021,
        max_num_seqs=64,
        kv_capacity_tokens=1600,
        block_size=16,
        max_num_batched_tokens=512,
        prefill_chunk_while_decoding=128,
    )


def test_engines_that_have_measured_nothing_do_not_count() -> None:
    fresh = engine(load=dict.fromkeys(engine()["load"], 0.0))
    away = {"rank": 2, "load": None}
    assert fit_description(described(fresh, engine(0.03), away)).num_engines == 1
    with pytest.raises(FitError, match="none of 2 engines has measured its speeds yet"):
        fit_description(described(fresh, away))


def test_another_servers_answer_is_named_as_such() -> None:
    for body in (b"<html>", b"{}", b'{"engines": 3}'):
        with pytest.raises(FitError, match="not what quadriga answers"):
            fit_description(body)


def test_the_fields_are_those_that_a_frontend_describes() -> None:
    view = LiveView((0, 1), 1.0, 0.0, 1)
    report = LoadReport(
        0, 1, 1, EnginePhase.READY, prefill_tokens_per_second=900.0, decode_seconds_per_step=0.04,
        decode_seconds_per_request=0.002, decode_seconds_per_kv_token=2e-6,
    )  # fmt: skip
    view.welcome(EngineHello(PROTOCOL_VERSION, 0, 1, "model", 1024, 16, 256, 48, "seed"), 0.0)
    entry = EngineEntry(0, 1, EngineState.READY, report=report)
    view.apply(ClusterView(1, 1, False, [entry], []), 0.0)
    model = fit_description(described(*describe_engines(view, 0.0))).cost_model
    assert (model.prefill_tokens_per_second, model.decode_seconds_per_kv_token) == (900.0, 2e-6)
    assert (model.max_num_seqs, model.kv_capacity_tokens) == (48, 4096)


def test_the_command_writes_what_a_simulation_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with server_that_answers(described(engine(), engine())) as url:
        assert run_fit("--url", url) == 0
        assert run_fit("--url", url, "--output", str(tmp_path / "model.json")) == 0
    printed = read_cost_model(capsys.readouterr().out.encode())
    assert printed == read_cost_model((tmp_path / "model.json").read_bytes())
    assert printed.decode_seconds_per_step == 0.02


def test_what_cannot_be_asked_is_one_line_and_exit_code_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_fit("--url", "http://127.0.0.1:1") == 1
    with server_that_answers(described()) as url:
        assert run_fit("--url", url) == 1
        assert run_fit("--url", f"{url}/elsewhere") == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert "none of 0 engines" in lines[1]
    assert "answered with 404" in lines[2]
