"""A model folder without weights, as small as it can be."""

import json
from pathlib import Path
from typing import Any

import pytest

VOCAB_SIZE = 300
WORDS = [f"Ġ{first}{second}" for first in "abcdefghij" for second in "aeiouknrst"]
MODEL_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": VOCAB_SIZE,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_size": 64,
    "max_position_embeddings": 512,
    "eos_token_id": 2,
}


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    write_model_folder(folder)
    return folder


def write_model_folder(folder: Path, **changes: Any) -> None:
    """100 readable words, 10 bytes, 3 special tokens, and a vocabulary that is padded to 300."""
    vocabulary = ["<pad>", "<bos>", "<eos>", *"!\"#$%&'()*", *WORDS]
    (folder / "config.json").write_text(json.dumps(MODEL_CONFIG | changes))
    tokenizer = {
        "model": {"vocab": {text: index for index, text in enumerate(vocabulary)}},
        "added_tokens": [{"id": index, "special": True} for index in range(3)],
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
