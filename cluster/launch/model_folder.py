"""Whether a folder holds a model that can be served, told without reading its weights."""

import json
from pathlib import Path
from typing import Any

from cluster.errors import ModelError


def check_model_folder(folder: Path, max_model_len: int | None) -> None:
    """Raises ModelError, saying in one line what is wrong, unless `folder` holds a model."""
    if not folder.is_dir():
        raise ModelError(f"--model {folder} is not a folder")
    missing = [name for name in ("config.json", "tokenizer.json") if not (folder / name).is_file()]
    if not any(folder.glob("*.safetensors")):
        missing.append("*.safetensors")
    if missing:
        raise ModelError(f"--model {folder} is not a model folder: it has no {', '.join(missing)}")
    config = _read_config(folder)
    architectures = config.get("architectures")
    if not isinstance(architectures, list) or not architectures:
        raise ModelError(f"--model {folder}: config.json names no architecture")
    _check_length(folder, config, max_model_len)


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise ModelError(f"--model {folder}: config.json cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise ModelError(f"--model {folder}: config.json is not an object")
    return config


def _check_length(folder: Path, config: dict[str, Any], max_model_len: int | None) -> None:
    longest = config.get("max_position_embeddings")
    if max_model_len is not None and isinstance(longest, int) and max_model_len > longest:
        raise ModelError(
            f"--max-model-len {max_model_len} is more than the {longest} positions of {folder.name}"
        )
