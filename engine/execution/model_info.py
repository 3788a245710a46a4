"""What the rest of the engine needs to know of a model, and what makes two models the same."""

import hashlib
import json
import struct
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from cluster.errors import ModelError

_LONGEST_HEADER_BYTES = 100_000_000
_SAMPLES = 64
"""Parts of a shard, evenly spread, that its fingerprint is of."""
_SAMPLE_BYTES = 4096


class ModelInfo(NamedTuple):
    """The numbers of a model that sizes and limits are worked out from."""

    vocab_size: int
    num_layers: int
    num_kv_heads: int
    head_dim: int
    max_position_embeddings: int
    hidden_size: int
    eos_token_ids: list[int]


def describe_model(config: Any, directory: Path) -> ModelInfo:
    """The numbers in a transformers config and in the folder's generation_config.json."""
    heads = config.num_attention_heads
    return ModelInfo(
        vocab_size=config.vocab_size,
        num_layers=config.num_hidden_layers,
        num_kv_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
        max_position_embeddings=config.max_position_embeddings,
        hidden_size=config.hidden_size,
        eos_token_ids=_eos_token_ids(config, directory),
    )


def _eos_token_ids(config: Any, directory: Path) -> list[int]:
    eos = getattr(config, "eos_token_id", None)
    path = directory / "generation_config.json"
    if path.is_file():
        eos = json.loads(path.read_text()).get("eos_token_id", eos)
    if eos is None:
        return []
    return list(eos) if isinstance(eos, list) else [eos]


def weight_files(directory: Path) -> list[Path]:
    """The safetensors files of a model folder, in order. Raises ModelError if one is missing."""
    index = directory / "model.safetensors.index.json"
    if index.is_file():
        names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        files = [directory / name for name in names]
    else:
        files = [directory / "model.safetensors"]
    for file in files:
        if not file.is_file():
            raise ModelError(f"{directory} has no {file.name}")
    return files


def model_fingerprint(directory: Path) -> str:
    """A short text, equal for equal models: of the config, and of each shard's head, size and samples.

    Reads some hundred kilobytes, not all weights, all over a shard: a model that was tuned further
    often has some weights unchanged.
    """
    digest = hashlib.blake2b(digest_size=16)
    config = json.loads((directory / "config.json").read_text())
    digest.update(msgspec.json.encode(config, order="deterministic"))
    for file in weight_files(directory):
        num_bytes = file.stat().st_size
        with file.open("rb") as stream:
            (header_length,) = struct.unpack("<Q", stream.read(8))
            digest.update(stream.read(min(header_length, _LONGEST_HEADER_BYTES)))
            begin = stream.tell()
            for index in range(_SAMPLES):
                stream.seek(begin + (num_bytes - begin) * index // _SAMPLES)
                digest.update(stream.read(_SAMPLE_BYTES))
        digest.update(struct.pack("<Q", num_bytes))
    return digest.hexdigest()


def weights_stamp(directory: Path) -> str:
    """A short text that changes when the folder's weights are written to or replaced.

    By the files' names, numbers and times: no weight is read. A copy has another stamp. Raises
    ModelError if a file is missing.
    """
    digest = hashlib.blake2b(digest_size=16)
    for file in weight_files(directory):
        path = file.resolve()
        status = path.stat()
        digest.update(
            f"{path}\0{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}\0"
            .encode("utf-8", "surrogateescape")
        )  # fmt: skip
    return digest.hexdigest()
