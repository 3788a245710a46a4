"""Model folders of any size, made up."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from engine.execution.model_info import weight_files
from loadtests.engine_lab.engine_config import model_cost
from loadtests.engine_lab.llama_shape import SHAPES, LlamaShape
from loadtests.engine_lab.options import EngineTarget
from loadtests.engine_lab.random_model import write_random_llama
from tests.support.serving import generate, make_request, make_runner

TINY = LlamaShape(64, 96, 3, 4, 2, 16, 300, is_tied=True)


@pytest.mark.parametrize("is_tied", [True, False])
def test_a_made_up_model_is_one_that_the_engine_serves(is_tied: bool, tmp_path: Path) -> None:
    write_random_llama(TINY._replace(is_tied=is_tied), tmp_path)
    runner = make_runner(tmp_path, max_model_len=64)
    tokens = generate(runner, make_request([5, 6, 7]), 4)
    assert len(tokens) == 4
    assert runner.vocab_size == 300
    cost = model_cost(EngineTarget(tmp_path, "cpu", threads=1))
    assert cost.body_weights == 3 * (64 * (64 + 32 + 32 + 64) + 3 * 64 * 96)
    assert cost.weight_bytes == 2


def test_every_layer_is_a_shard_and_the_index_tells_their_size(tmp_path: Path) -> None:
    write_random_llama(TINY, tmp_path)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    files = weight_files(tmp_path)
    assert len(files) == 1 + 3
    weights = 300 * 64 + 64 + 3 * (64 * (64 + 32 + 32 + 64) + 3 * 64 * 96 + 2 * 64)
    assert index["metadata"]["total_size"] == 2 * weights
    assert 0 < sum(file.stat().st_size for file in files) - 2 * weights < 10_000


def test_its_tokenizer_reads_any_text(tmp_path: Path) -> None:
    write_random_llama(TINY, tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    text = "Any text, 100 % and é."
    token_ids = tokenizer.encode(text).ids
    assert len(token_ids) == len(text.encode())
    assert tokenizer.decode(token_ids) == text


@pytest.mark.parametrize(("name", "billions"), [("1b", 1.24), ("8b", 8.03)])
def test_the_shapes_have_as_many_weights_as_their_names_say(name: str, billions: float) -> None:
    shape = SHAPES[name]
    heads = 2 * shape.num_heads + 2 * shape.num_kv_heads
    layer = shape.hidden_size * (heads * shape.head_dim + 3 * shape.intermediate_size)
    tables = shape.vocab_size * shape.hidden_size * (1 if shape.is_tied else 2)
    assert shape.num_layers * layer + tables == pytest.approx(billions * 1e9, rel=0.01)
