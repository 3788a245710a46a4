"""What a streamed token costs: the counting, the arithmetic, and the whole command on a small cluster."""

import argparse
import asyncio
import json
import marshal
import os
from pathlib import Path

import pytest

from cluster.config import ClusterConfig, ModelConfig, save_config
from loadtests import cli
from loadtests.drills.drill import DrillError
from loadtests.frontend_benchmark import Report, kinds, stages_of_config
from loadtests.frontend_lab.client_processes import ClientProcesses, shared_out
from loadtests.frontend_lab.measurement import (
    LoadOptions,
    Run,
    body_of,
    cluster_flags,
    measure_run,
)
from loadtests.frontend_lab.peer_comparison import PeerComparison, ratios_of
from loadtests.frontend_lab.stages import NO_HTTP
from loadtests.frontend_lab.streaming_client import Answer, Count, Job, Kind, run
from loadtests.frontend_lab.streaming_server import server_at
from loadtests.frontend_lab.summary import Scaling, can_show_scaling, scaling, summarize
from loadtests.frontend_lab.text import (
    comparison_line,
    no_scaling_line,
    scaling_line,
    throughput_line,
)
from tests.support.frontend_app import ANSWER, engine_that_says
from tests.support.served_frontend import served_frontend
from tests.support.tiny_tokenizer import CHAT_TEMPLATE, VOCAB_SIZE, byte_level_backend

WIRE = b"HTTP/1.1 200 \r\n\r\n7\r\ndata: a\n\n\r\n7\r\ndata: b\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


def job(port: int, kind: Kind = "completions", **fields: int) -> Job:
    path = "/v1/chat/completions" if kind == "chat" else "/v1/completions"
    return Job("127.0.0.1", port, path, body_of(kind, 8), streams=3, answers_per_stream=2)


def counted(*pieces: bytes) -> Count:
    count = Count()
    answer = Answer(b"", count, lambda: None)
    for piece in pieces:
        answer.data_received(piece)
    answer.connection_lost(None)
    return count


@pytest.mark.parametrize("cut", range(1, len(WIRE)))
def test_events_are_counted_wherever_packets_end(cut: int) -> None:
    count = counted(WIRE[:cut], WIRE[cut:])
    assert (count.answers, count.failed, count.events) == (1, 0, 3)
    assert count.num_bytes == len(WIRE)


def test_events_are_counted_byte_by_byte() -> None:
    assert counted(*(WIRE[i : i + 1] for i in range(len(WIRE)))).events == 3


def test_an_answer_that_breaks_off_is_not_whole() -> None:
    count = counted(WIRE[:-30])
    assert (count.answers, count.failed) == (0, 1)
    assert "200" in count.failure


@pytest.mark.parametrize(("kind", "events"), [("completions", 9), ("chat", 10)])
async def test_all_answers_of_a_job_come_whole(kind: Kind, events: int) -> None:
    engine = engine_that_says(ANSWER)
    async with served_frontend(engine) as served:
        count = await run(job(served.port, kind))
    assert (count.answers, count.failed) == (6, 0)
    assert all(request.sampling.max_tokens == 8 for request in engine.submitted)
    assert count.events <= 6 * events
    assert count.events > 6 * 2


async def test_a_refusal_is_told_as_it_is() -> None:
    async with served_frontend(engine_that_says(ANSWER), api_key=["secret"]) as served:
        count = await run(job(served.port))
    assert (count.answers, count.failed) == (0, 6)
    assert "401" in count.failure


def test_clients_whose_server_is_not_there_are_an_error_in_words() -> None:
    with ClientProcesses([job(1)]) as clients, pytest.raises(DrillError, match="client has ended"):
        clients.run()


def test_streams_are_shared_out_evenly_and_none_is_lost() -> None:
    assert [each.streams for each in shared_out(job(1), 2)] == [2, 1]
    assert [each.streams for each in shared_out(job(1), 8)] == [1, 1, 1]


def a_run(tokens_per_second: float, core_seconds: float = 0.05) -> Run:
    return Run(int(tokens_per_second), 4, 900, 200_000, 1.0, core_seconds)


def test_each_figure_is_the_median_of_the_runs() -> None:
    found = summarize("chat", 2, [a_run(1000, 0.5), a_run(3000, 0.1), a_run(2000, 0.1)])
    assert found.tokens_per_second == 2000
    assert found.tokens_per_core_second == 20_000
    assert found.core_microseconds_per_token == 50
    assert found.cores_used == 0.1
    assert found.requests_per_second == 4


def test_too_few_tokens_of_a_core_miss_the_line() -> None:
    kept, missed = summarize("chat", 1, [a_run(1000, 0.1)]), summarize("chat", 1, [a_run(999, 0.1)])
    assert (kept.is_kept, missed.is_kept) == (True, False)
    assert "BELOW" in throughput_line(missed)
    assert "BELOW" not in throughput_line(kept)
    assert "several at once" not in throughput_line(kept)
    load = LoadOptions()
    assert Report(load, 8, [kept]).is_kept
    assert not Report(load, 8, [kept, missed]).is_kept


def test_frontends_that_fall_behind_are_marked_since_their_tokens_cost_less() -> None:
    found = summarize("chat", 1, [Run(1000, 4, 890, 0, 1.0, 0.05)])
    assert "several at once" in throughput_line(found)


def test_four_frontends_are_held_against_two_by_their_events() -> None:
    of_two = [Run(10, 1, events, 0, 1.0, 1.0) for events in (100, 200, 900)]
    of_four = [Run(90, 1, events, 0, 2.0, 1.0) for events in (100, 680, 900)]
    kept, missed = scaling("chat", of_two, of_four), Scaling("chat", 1.69)
    assert kept == Scaling("chat", 1.7)
    assert (kept.is_kept, missed.is_kept) == (True, False)
    assert ("MISSED" in scaling_line(kept), "MISSED" in scaling_line(missed)) == (False, True)
    assert not Report(LoadOptions(), 8, scalings=[missed]).is_kept


def test_a_machine_of_few_cores_does_not_judge_that_and_says_so() -> None:
    assert can_show_scaling(6)
    assert not can_show_scaling(5)
    assert "not judged: 2 cores" in no_scaling_line(2)


def test_a_core_of_ours_is_held_against_one_of_theirs_pair_by_pair() -> None:
    ours, theirs = [a_run(1000, s) for s in (0.1, 0.2, 0.1)], [a_run(1000, s) for s in (0.3, 0.4, 0.4)]  # fmt: skip
    ratios = ratios_of(ours, theirs)
    assert ratios == pytest.approx([3.0, 2.0, 4.0])
    rows = summarize("chat", 1, ours), summarize("chat", 1, theirs)
    kept = PeerComparison("other", *rows, [3.1, 2.0, 4.0])
    missed = PeerComparison("other", *rows, [2.9, 2.0, 4.0])
    assert (kept.is_kept, missed.is_kept) == (True, False)
    assert comparison_line(kept).endswith("other 400.0: 3.10 × (2.00 to 4.00), at least 3")
    assert comparison_line(missed).endswith("MISSED")
    assert not Report(LoadOptions(), 8, comparisons=[missed]).is_kept


async def test_a_server_of_another_kind_is_whoever_listens_there() -> None:
    async with served_frontend(engine_that_says(ANSWER)) as served:
        [process] = server_at(served.url).find_processes()
    assert process.pid == os.getpid()
    with pytest.raises(DrillError, match=r"no process .* listens"):
        server_at(served.url).find_processes()


@pytest.mark.e2e
@pytest.mark.timeout(180)
async def test_the_command_compares_one_frontend_with_a_server_that_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "found.json"
    async with served_frontend(engine_that_says(ANSWER)) as served:
        await asyncio.to_thread(cli.main, [
            "frontend", f"--peer=other={served.url}", "--kinds=chat", "--repeats=2", "--streams=64",
            "--output-tokens=32", "--json", str(file),
        ])  # fmt: skip
    [compared] = json.loads(file.read_text())["comparisons"]
    assert compared["ours"]["frontends"] == 1
    assert len(compared["ratios"]) == 2
    assert "other" in capsys.readouterr().out


async def test_a_run_too_short_to_be_measured_is_none() -> None:
    async with served_frontend(engine_that_says(ANSWER)) as served:
        server = server_at(served.url)._replace(find_processes=list)
        with pytest.raises(DrillError, match="ask for more"):
            await asyncio.to_thread(
                measure_run, server, "chat", LoadOptions(streams=1, output_tokens=2)
            )


def test_engines_take_all_streams_at_once() -> None:
    flags = cluster_flags(4, LoadOptions(engines=3, step_seconds=0.01))
    assert {"--dp=3", "--frontends=4", "--simulated-step-seconds=0.01"} <= set(flags)


def test_kinds_are_those_that_there_are() -> None:
    assert kinds("chat,completions") == ["chat", "completions"]
    with pytest.raises(argparse.ArgumentTypeError, match="completions"):
        kinds("chat,poems")


def test_each_stage_has_a_price(tmp_path: Path) -> None:
    byte_level_backend().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    model = {"vocab_size": VOCAB_SIZE, "max_position_embeddings": 4096, "eos_token_id": 2}
    (tmp_path / "config.json").write_text(json.dumps(model))
    config = ClusterConfig(model=ModelConfig(model=str(tmp_path)))
    save_config(config, tmp_path / "cluster.json")
    costs = stages_of_config((tmp_path / "cluster.json").read_bytes(), 1, NO_HTTP)
    assert len({cost.stage for cost in costs}) == 6
    assert all(0 < cost.microseconds_per_token < 1000 for cost in costs)


@pytest.mark.e2e
@pytest.mark.timeout(180)
def test_the_command_measures_a_cluster_and_profiles_a_frontend(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, profile = tmp_path / "found.json", tmp_path / "profile"
    cli.main([
        "frontend", "--frontends=1", "--kinds=chat", "--repeats=1", "--streams=8",
        "--answers-per-stream=1", "--output-tokens=32", "--json", str(file), "--profile", str(profile),
    ])  # fmt: skip
    found = json.loads(file.read_text())
    [throughput] = found["throughputs"]
    assert throughput["tokens_per_core_second"] > 0
    assert len(found["stages"]) == 10
    assert "tottime" in capsys.readouterr().out
    functions = marshal.loads(profile.read_bytes())
    assert any(file.endswith("generation_response.py") for file, _, _ in functions)
