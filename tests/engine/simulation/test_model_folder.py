"""What is read of a model folder."""

import json
from pathlib import Path
from typing import Any

import pytest

from cluster.errors import ModelError
from engine.simulation.model_folder import read_model_folder
from tests.engine.simulation.conftest import WORDS, write_model_folder


def test_sizes_come_from_the_config_and_words_from_the_tokenizer(model_folder: Path) -> None:
    model = read_model_folder(model_folder)
    assert (model.info.vocab_size, model.info.max_position_embeddings) == (300, 512)
    assert (model.info.num_kv_heads, model.info.head_dim) == (2, 16)
    assert model.info.eos_token_ids == [2]
    assert list(model.word_ids) == [3, *range(13, 113)]  # an exclamation mark is readable too


def test_a_simulated_model_is_never_taken_for_the_real_one(model_folder: Path) -> None:
    model = read_model_folder(model_folder)
    assert model.fingerprint.startswith("simulated")
    write_model_folder(model_folder, hidden_size=128)
    assert read_model_folder(model_folder).fingerprint != model.fingerprint


def test_a_unigram_vocabulary_is_a_list(model_folder: Path) -> None:
    pairs = [[text, -1.0] for text in ["<s>", "</s>", "<unk>", *("▁" + w[1:] for w in WORDS)]]
    tokenizer = {"model": {"vocab": pairs}, "added_tokens": [{"id": i} for i in range(3)]}
    (model_folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert list(read_model_folder(model_folder).word_ids) == list(range(3, 103))


def test_without_readable_tokens_all_but_the_special_ones_are_said(model_folder: Path) -> None:
    tokenizer = {"model": {"vocab": {f"#{index}": index for index in range(400)}}}
    (model_folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    words = read_model_folder(model_folder).word_ids
    assert list(words) == [index for index in range(300) if index != 2]


@pytest.mark.parametrize("changes", [{"vocab_size": "many"}, {"num_attention_heads": 0}])
def test_sizes_that_are_none_are_refused(model_folder: Path, changes: dict[str, Any]) -> None:
    write_model_folder(model_folder, **changes)
    with pytest.raises(ModelError, match="config"):
        read_model_folder(model_folder)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("config.json", "{", "config.json"),
        ("config.json", "[]", "config.json is not an object"),
        ("config.json", '{"vocab_size": 3}', "num_attention_heads"),
        ("tokenizer.json", "", "tokenizer.json"),
        ("tokenizer.json", '{"model": {}}', "has no token but special ones"),
    ],
)
def test_a_folder_that_tells_too_little_is_refused(
    model_folder: Path, name: str, content: str, complaint: str
) -> None:
    (model_folder / name).write_text(content)
    with pytest.raises(ModelError, match=complaint):
        read_model_folder(model_folder)
