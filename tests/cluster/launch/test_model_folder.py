"""A folder that is no model is told from one that is, before anything is started."""

import json
from pathlib import Path

import pytest

from cluster.errors import ModelError
from cluster.launch.model_folder import check_model_folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    config = {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 128}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"")
    return tmp_path


def test_a_complete_folder_is_accepted(model: Path) -> None:
    check_model_folder(model, max_model_len=128)


def test_a_file_or_nothing_is_not_a_folder(model: Path) -> None:
    for path in (model / "config.json", model / "nowhere"):
        with pytest.raises(ModelError, match=r"--model .* is not a folder"):
            check_model_folder(path, None)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_what_is_missing_is_named(model: Path, name: str) -> None:
    (model / name).unlink()
    with pytest.raises(ModelError, match="it has no " + name.replace("model", r"\*")):
        check_model_folder(model, None)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"architectures": []}', "{"])
def test_a_config_without_an_architecture_is_refused(model: Path, text: str) -> None:
    (model / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"config\.json"):
        check_model_folder(model, None)


def test_a_context_beyond_the_models_positions_is_refused(model: Path) -> None:
    with pytest.raises(ModelError, match="--max-model-len 129 is more than the 128 positions"):
        check_model_folder(model, max_model_len=129)
