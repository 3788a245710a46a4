"""What the frontend reads from a model's folder, and what it says where that cannot be used."""

import json
from pathlib import Path
from typing import Any

import pytest

from cluster.config import ClusterConfig, FrontendConfig, ModelConfig
from cluster.errors import ModelError
from frontend.model_info import GenerationDefaults, load_model_info
from frontend.tokenizer import load_tokenizer
from tests.support.tiny_tokenizer import byte_level_backend

CONFIG: dict[str, Any] = {"max_position_embeddings": 2048, "vocab_size": 400, "eos_token_id": 2}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "little-model"
    path.mkdir()
    write(path / "config.json", CONFIG)
    byte_level_backend().save(str(path / "tokenizer.json"))
    return path


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))


def config_for(folder: Path, chat_template: str | None = None, **model: Any) -> ClusterConfig:
    return ClusterConfig(
        model=ModelConfig(model=str(folder), **model),
        frontend=FrontendConfig(chat_template=chat_template),
    )


def test_limits_come_from_the_models_configuration(folder: Path) -> None:
    info = load_model_info(config_for(folder))
    assert (info.name, info.max_model_len, info.vocab_size) == ("little-model", 2048, 400)
    assert info.eos_token_ids == (2,)
    assert info.defaults == GenerationDefaults()


def test_name_and_length_can_be_set(folder: Path) -> None:
    info = load_model_info(config_for(folder, served_model_name="mine", max_model_len=100))
    assert (info.name, info.max_model_len) == ("mine", 100)


def test_the_generation_configuration_wins_and_gives_defaults(folder: Path) -> None:
    write(
        folder / "generation_config.json",
        {"eos_token_id": [1, 2], "temperature": 0.2, "top_k": 5, "do_sample": True},
    )
    info = load_model_info(config_for(folder))
    assert info.eos_token_ids == (1, 2)
    assert info.defaults == GenerationDefaults(temperature=0.2, top_k=5)


def test_a_text_model_inside_another_is_found(folder: Path) -> None:
    write(folder / "config.json", {"text_config": CONFIG, "eos_token_id": None})
    assert load_model_info(config_for(folder)).max_model_len == 2048


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"vocab_size": 400}, "max_position_embeddings"),
        ({"max_position_embeddings": 10}, "vocab_size"),
        ({**CONFIG, "vocab_size": "many"}, "cannot be used"),
        ([], "not a JSON object"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_named(
    folder: Path, config: Any, words: str
) -> None:
    write(folder / "config.json", config)
    with pytest.raises(ModelError, match=words):
        load_model_info(config_for(folder))


def test_more_length_than_the_model_has_is_refused(folder: Path) -> None:
    with pytest.raises(ModelError, match="2048"):
        load_model_info(config_for(folder, max_model_len=4096))


def test_a_folder_without_files_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json"):
        load_model_info(config_for(tmp_path))
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        load_tokenizer(config_for(tmp_path))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="not a tokenizer"):
        load_tokenizer(config_for(tmp_path))


def test_special_tokens_come_as_texts_or_objects(folder: Path) -> None:
    settings = {"bos_token": {"content": "<|bos|>"}, "eos_token": "<|im_end|>", "pad_token": None}
    write(folder / "tokenizer_config.json", {**settings, "chat_template": "{{ bos_token }}"})
    tokenizer = load_tokenizer(config_for(folder))
    assert tokenizer.eos_token_id == 2
    assert tokenizer.chat_template is not None
    assert tokenizer.chat_template.render([]) == "<|bos|>"


def test_the_template_is_the_configured_file_then_the_folders_then_the_settings(
    folder: Path,
) -> None:
    assert load_tokenizer(config_for(folder)).chat_template is None
    named = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "settings"}]
    write(folder / "tokenizer_config.json", {"chat_template": named})
    assert rendered(config_for(folder)) == "settings"
    (folder / "chat_template.jinja").write_text("folder")
    assert rendered(config_for(folder)) == "folder"
    (folder / "own.jinja").write_text("own")
    assert rendered(config_for(folder, chat_template=str(folder / "own.jinja"))) == "own"
    with pytest.raises(ModelError, match=r"absent\.jinja"):
        load_tokenizer(config_for(folder, chat_template=str(folder / "absent.jinja")))


def rendered(config: ClusterConfig) -> str:
    template = load_tokenizer(config).chat_template
    assert template is not None
    return template.render([])
