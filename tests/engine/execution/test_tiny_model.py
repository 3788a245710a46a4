"""The tiny models that other tests serve are whole, and the same every time."""

import json
from pathlib import Path

from tokenizers import Tokenizer

from tests.support.serving import generate, make_request, make_runner
from tests.support.tiny_model import make_tiny_model


def test_a_tiny_model_has_a_tokenizer_for_its_whole_vocabulary(tmp_path: Path) -> None:
    make_tiny_model(tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == 384
    text = "The capital of France: Париж, 漢字 🧑‍🚀"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert tokenizer.encode("<|im_end|>").ids == [2]
    request = make_request(tokenizer.encode(text).ids)
    assert len(generate(make_runner(tmp_path), request, 8)) == 8


def test_a_tiny_model_is_the_same_every_time(tmp_path: Path) -> None:
    folders = [make_tiny_model(tmp_path / name, seed=3) for name in ("a", "b")]
    names = sorted(path.name for path in folders[0].iterdir())
    assert names == sorted(path.name for path in folders[1].iterdir())
    for name in names:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    config = json.loads((folders[0] / "tokenizer_config.json").read_text())
    assert config["eos_token"] == "<|im_end|>"
    assert "add_generation_prompt" in config["chat_template"]
