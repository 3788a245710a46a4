"""Model folders of any size with random weights in bfloat16, written a shard at a time."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from loadtests.engine_lab.llama_shape import LlamaShape

MAX_MODEL_LEN = 8192
_DEVIATION = 0.02


def write_random_llama(shape: LlamaShape, directory: Path) -> None:
    """A whole folder: configuration, weights, and a tokenizer of single bytes.

    All layers have the same numbers: drawing eight billion would take minutes, and no step gets
    faster by it.
    """
    _write_json(directory / "config.json", _config(shape))
    _write_tokenizer(directory / "tokenizer.json")
    weight_map: dict[str, str] = {}
    total_bytes = 0
    for file_name, tensors in _shards(shape):
        save_file(tensors, directory / file_name, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(tensors, file_name)
        total_bytes += sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": total_bytes}, "weight_map": weight_map}
    _write_json(directory / "model.safetensors.index.json", index)


def _config(shape: LlamaShape) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": shape.num_layers,
        "num_attention_heads": shape.num_heads,
        "num_key_value_heads": shape.num_kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocab_size,
        "max_position_embeddings": MAX_MODEL_LEN,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0},
        "hidden_act": "silu",
        "tie_word_embeddings": shape.is_tied,
        "bos_token_id": 0,
        "eos_token_id": 1,
    }


def _shards(shape: LlamaShape) -> Iterator[tuple[str, dict[str, torch.Tensor]]]:
    count = shape.num_layers + 1
    generator = torch.Generator().manual_seed(0)
    yield _shard_name(0, count), _ends(shape, generator)
    layer = _layer(shape, generator)
    for index in range(shape.num_layers):
        named = {f"model.layers.{index}.{name}": tensor for name, tensor in layer.items()}
        yield _shard_name(index + 1, count), named


def _shard_name(index: int, count: int) -> str:
    return f"model-{index + 1:05}-of-{count:05}.safetensors"


def _ends(shape: LlamaShape, generator: torch.Generator) -> dict[str, torch.Tensor]:
    tensors = {
        "model.embed_tokens.weight": _random(shape.vocab_size, shape.hidden_size, generator),
        "model.norm.weight": _ones(shape.hidden_size),
    }
    if not shape.is_tied:
        tensors["lm_head.weight"] = _random(shape.vocab_size, shape.hidden_size, generator)
    return tensors


def _layer(shape: LlamaShape, generator: torch.Generator) -> dict[str, torch.Tensor]:
    hidden, intermediate = shape.hidden_size, shape.intermediate_size
    query, key = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    sizes = {
        "self_attn.q_proj": (query, hidden),
        "self_attn.k_proj": (key, hidden),
        "self_attn.v_proj": (key, hidden),
        "self_attn.o_proj": (hidden, query),
        "mlp.gate_proj": (intermediate, hidden),
        "mlp.up_proj": (intermediate, hidden),
        "mlp.down_proj": (hidden, intermediate),
    }
    matrices = {
        f"{name}.weight": _random(rows, columns, generator)
        for name, (rows, columns) in sizes.items()
    }
    norms = ("input_layernorm", "post_attention_layernorm")
    return matrices | {f"{name}.weight": _ones(hidden) for name in norms}


def _random(rows: int, columns: int, generator: torch.Generator) -> torch.Tensor:
    weight = torch.empty((rows, columns), dtype=torch.bfloat16)
    return weight.normal_(0.0, _DEVIATION, generator=generator)


def _ones(size: int) -> torch.Tensor:
    return torch.ones(size, dtype=torch.bfloat16)


def _write_tokenizer(path: Path) -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {text: token_id for token_id, text in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(path))


def _write_json(path: Path, content: object) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2))
