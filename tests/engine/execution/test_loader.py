"""What is refused before it could be computed wrongly, and in which words."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from cluster.config import ClusterConfig, EngineConfig, ModelConfig
from cluster.errors import ConfigError, ModelError
from engine.execution.model_info import model_fingerprint
from engine.execution.packed_modules import TiedEmbedding
from engine.execution.runner import ModelRunner
from tests.engine.execution.conftest import TinyModel
from tests.support.serving import generate, make_request, make_runner
from tests.support.tiny_model import make_tiny_model


@pytest.fixture
def folder(tmp_path: Path, tiny_model: TinyModel) -> Path:
    """A copy of a model folder, to be spoilt."""
    return Path(shutil.copytree(tiny_model("llama"), tmp_path / "model"))


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nowhere is not a folder"):
        make_runner(tmp_path / "nowhere")


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_a_folder_without_an_essential_file(folder: Path, missing: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(ModelError, match=f"has no {missing}"):
        make_runner(folder)


def test_a_config_that_is_not_json(folder: Path) -> None:
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match=r"config\.json"):
        make_runner(folder)


def test_an_unknown_model_type(folder: Path) -> None:
    edit_config(folder, model_type="nothing-like-it")
    with pytest.raises(ModelError, match="nothing-like-it"):
        make_runner(folder)


def test_weights_cut_short(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ModelError, match="--model"):
        make_runner(folder)


def test_a_weight_that_is_missing(folder: Path) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    weights = {name: weight.clone() for name, weight in weights.items()}
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, path, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks 1 weights, such as .*up_proj"):
        make_runner(folder)


def test_a_weight_of_the_wrong_shape(folder: Path) -> None:
    edit_config(folder, intermediate_size=48)
    with pytest.raises(ModelError, match="--model"):
        make_runner(folder)


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        ("mistral", {"sliding_window": 64}, "sliding window of 64"),
        ("qwen2", {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 64, "use_sliding_window": True},
         "sliding window of 64"),
        ("qwen2", {"layer_types": ["full_attention", "linear_attention"]}, "linear_attention"),
        ("llama", {"attn_logit_softcapping": 50.0}, "caps its attention logits"),
        ("llama", {"alibi": True}, "ALiBi"),
        ("llama", {"is_encoder_decoder": True}, "encoder-decoder"),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4,
                   "original_max_position_embeddings": 128}}, "--max-model-len 128"),
    ],
)  # fmt: skip
def test_features_that_would_be_computed_wrongly(
    tmp_path: Path, family: str, changes: dict[str, Any], message: str
) -> None:
    make_tiny_model(tmp_path, family, tokenizer=False)
    edit_config(tmp_path, **changes)
    with pytest.raises(ModelError, match=message):
        make_runner(tmp_path)


def test_a_window_that_nothing_exceeds_is_no_obstacle(tmp_path: Path) -> None:
    make_tiny_model(tmp_path, "mistral", tokenizer=False, sliding_window=64)
    assert make_runner(tmp_path, max_model_len=64).max_model_len == 64


def test_a_model_that_is_no_causal_lm(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": "vit"}))
    with pytest.raises(ModelError, match="not a causal language model"):
        make_runner(folder)


def test_shards_are_read_and_a_missing_one_is_named(folder: Path, tiny_model: TinyModel) -> None:
    weights = load_file(folder / "model.safetensors")
    names = sorted(weights)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for shard, held in shards.items():
        part = {name: weights[name].clone() for name in held}
        save_file(part, folder / shard, metadata={"format": "pt"})
    (folder / "model.safetensors").unlink()
    index = {
        "metadata": {},
        "weight_map": {name: shard for shard, held in shards.items() for name in held},
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    request = make_request(range(3, 30))
    whole = generate(make_runner(tiny_model("llama")), make_request(range(3, 30)), 8)
    assert generate(make_runner(folder), request, 8) == whole
    (folder / "b.safetensors").unlink()
    with pytest.raises(ModelError, match=r"has no b\.safetensors"):
        make_runner(folder)


def test_lengths_that_do_not_fit_name_their_flags(tiny_model: TinyModel) -> None:
    with pytest.raises(ConfigError, match="--max-model-len 513: the model's own limit is 512"):
        make_runner(tiny_model("llama"), max_model_len=513)
    with pytest.raises(ConfigError, match="--kv-cache-memory"):
        make_runner(tiny_model("llama"), max_model_len=512, kv_cache_memory="64KiB")
    with pytest.raises(ConfigError, match="--kv-cache-memory"):
        make_runner(tiny_model("llama"), kv_cache_memory="1KiB")


def test_a_small_cache_limits_the_length_that_nobody_asked_for(tiny_model: TinyModel) -> None:
    runner = make_runner(tiny_model("llama"), kv_cache_memory="64KiB")
    assert runner.max_model_len == runner.num_blocks * 16 < 512


def test_fingerprints_tell_models_apart_and_copies_not(tmp_path: Path, folder: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    assert model_fingerprint(copy) == model_fingerprint(folder)
    other = make_tiny_model(tmp_path / "other", seed=1, tokenizer=False)
    assert model_fingerprint(other) != model_fingerprint(folder)
    edit_config(copy, rms_norm_eps=1e-3)
    assert model_fingerprint(copy) != model_fingerprint(folder)


def test_progress_rises_to_one(tiny_model: TinyModel) -> None:
    shares: list[float] = []
    config = ClusterConfig(
        model=ModelConfig(model=str(tiny_model("llama"))), engine=EngineConfig(device="cpu")
    )
    ModelRunner(config, shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_the_weight_file_is_let_go_once_it_is_read(tmp_path: Path, family: str, dtype: str) -> None:
    directory = make_tiny_model(tmp_path, family, dtype=dtype, tokenizer=False)
    runner = make_runner(directory)
    assert str(directory) not in Path("/proc/self/maps").read_text()
    assert runner.vocab_size


def test_an_embedding_tied_to_the_head_is_held_once(tiny_model: TinyModel) -> None:
    for family, is_tied in (("llama", True), ("qwen2", False)):
        embedding = make_runner(tiny_model(family))._model.lm._decoder.embed_tokens
        assert isinstance(embedding, TiedEmbedding) == is_tied
