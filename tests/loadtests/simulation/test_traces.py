"""Trace files of others: what is read, and what is said of a line that cannot be."""

from pathlib import Path

import pytest

from loadtests.simulation.cost_model import CostModel
from loadtests.simulation.scenario import Scenario
from loadtests.simulation.simulate import simulate
from loadtests.simulation.traces import TraceError, read_trace

MOONCAKE = (
    '{"timestamp": 0, "input_length": 1300, "output_length": 5, "hash_ids": [0, 1, 2]}\n'
    '{"timestamp": 2500, "input_length": 1100, "output_length": 7, "hash_ids": [0, 1, 3]}\n'
)
AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:15:46.6805900,374,44\n"
    "2023-11-16 18:15:50.9951690,396,109\n"
)
BURSTGPT = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n"
    "9.5,GPT-4,417,0,417,API log\n"
    "45,ChatGPT,1087,230,1317,Conversation log\n"
)


def written(folder: Path, text: str) -> Path:
    path = folder / "trace"
    path.write_text(text)
    return path


def test_mooncake_is_in_milliseconds_and_has_blocks(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, MOONCAKE), "mooncake")
    assert [tuple(record)[:3] for record in trace.records] == [(0.0, 1300, 5), (2.5, 1100, 7)]
    assert list(trace.records[1].block_ids) == [0, 1, 3]


def test_azure_has_times_of_day_with_seven_digits_or_an_offset(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, AZURE), "azure")
    assert trace.records[1].seconds - trace.records[0].seconds == pytest.approx(4.314579)
    later = AZURE + "2023-11-16 19:15:56.6805900+01:00,1,1\n"
    trace = read_trace(written(tmp_path, later), "azure")
    assert trace.records[2].seconds - trace.records[0].seconds == pytest.approx(10)


def test_burstgpt_requests_without_an_answer_are_left_out(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, BURSTGPT), "burstgpt")
    assert [record.output_tokens for record in trace.records] == [18, 230]


def test_equal_blocks_of_a_trace_have_equal_hashes(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, MOONCAKE), "mooncake")
    cost = CostModel(block_size=64)
    _, (first, second) = trace.offered(None, 1, 60.0, cost)
    assert first.hashes[:16] == second.hashes[:16]
    assert not set(first.hashes[16:]) & set(second.hashes[16:])
    assert (len(first.hashes), len(second.hashes)) == (1300 // 64, 1100 // 64)


def test_time_is_stretched_to_a_load(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, MOONCAKE), "mooncake")
    own_load, requests = trace.offered(None, 1, 60.0, CostModel())
    assert requests[1].arrived_at == 2.5
    load, requests = trace.offered(own_load / 2, 1, 60.0, CostModel())
    assert load == own_load / 2
    assert requests[1].arrived_at == pytest.approx(5.0)


def test_a_trace_is_simulated_and_its_prefixes_are_found(tmp_path: Path) -> None:
    path = written(tmp_path, MOONCAKE)
    outcome = simulate(
        Scenario(policy="marginal-cost", workload="mine", trace=str(path), engines=2)
    )
    assert (outcome.workload, outcome.completed) == ("mine", 2)
    assert outcome.hit_rate == pytest.approx(1024 / 2400)


@pytest.mark.parametrize(
    ("trace_format", "text", "complaint"),
    [
        ("mooncake", MOONCAKE + "{}\n", ":3: "),
        ("mooncake", MOONCAKE.replace("[0, 1, 3]", "[0, 1]"), ":2: 2 hash_ids"),
        ("mooncake", MOONCAKE.replace("[0, 1, 3]", "[0, -1, 3]"), ":2: a hash id"),
        ("mooncake", "", ": there is no request in it"),
        ("azure", AZURE.replace("374", "many"), ":2: ContextTokens is 'many'"),
        ("azure", AZURE.replace("ContextTokens", "Tokens"), ":1: there is no column"),
        ("azure", AZURE + "yesterday,1,1\n", ":4: TIMESTAMP is 'yesterday'"),
        ("burstgpt", BURSTGPT.replace("472", "-1"), ":2: a time or a number of tokens"),
        ("burstgpt", BURSTGPT.replace("45,", "nan,"), ":4: a time or a number of tokens"),
        ("burstgpt", AZURE, ":1: there is no column 'Timestamp'"),
    ],
)
def test_a_wrong_line_is_named(
    tmp_path: Path, trace_format: str, text: str, complaint: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(TraceError) as error:
        read_trace(path, trace_format)
    assert str(error.value).startswith(f"{path}{complaint}")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="nowhere"):
        read_trace(tmp_path / "nowhere", "azure")
