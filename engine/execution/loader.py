"""A model folder, checked and loaded into transformers' own modules."""

import json
import logging
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from torch import nn
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from cluster.errors import ModelError
from engine.execution.lean_import import lean_construction
from engine.execution.model_info import ModelInfo, describe_model, weight_files
from engine.execution.paged_attention import ATTENTION_NAME

transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()

_log = logging.getLogger(__name__)

_BATCH_DEPENDENT_ROPE = ("dynamic", "longrope")


def load_config(directory: Path) -> Any:
    """The folder's transformers config. Raises ModelError if it is no causal LM's folder."""
    if not directory.is_dir():
        raise ModelError(f"--model: {directory} is not a folder")
    if not (directory / "config.json").is_file():
        raise ModelError(f"--model: {directory} has no config.json")
    weight_files(directory)
    try:
        config = transformers.AutoConfig.from_pretrained(directory, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"--model: {directory}/config.json: {_first_line(error)}") from error
    if getattr(config, "is_encoder_decoder", False):
        raise ModelError(
            f"{config.model_type} is an encoder-decoder model; only decoders can be served"
        )
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ModelError(f"{config.model_type} is not a causal language model")
    return config


def check_supported(config: Any, max_model_len: int) -> None:
    """Raises ModelError for a model that this engine would compute wrongly, with the reason."""
    name = config.model_type
    if getattr(config, "attn_logit_softcapping", None) is not None:
        raise ModelError(f"{name} caps its attention logits, which is not supported")
    if getattr(config, "alibi", False) or getattr(config, "position_embedding_type", "") == "alibi":
        raise ModelError(f"{name} uses ALiBi, which is not supported")
    if not getattr(MODEL_FOR_CAUSAL_LM_MAPPING[type(config)], "_supports_attention_backend", False):
        raise ModelError(f"{name} does not use transformers' attention interface")
    _check_window(config, max_model_len)
    _check_rope(config, max_model_len)


def _check_window(config: Any, max_model_len: int) -> None:
    kinds = set(getattr(config, "layer_types", None) or [])
    if kinds - {"full_attention", "sliding_attention"}:
        raise ModelError(f"{config.model_type} has layers of kind {', '.join(sorted(kinds))}")
    window = getattr(config, "sliding_window", None)
    is_used = not kinds or "sliding_attention" in kinds
    if is_used and window is not None and window < max_model_len:
        raise ModelError(
            f"{config.model_type} attends to a sliding window of {window} tokens, which is "
            f"supported only within it: set --max-model-len {window} or less"
        )


def _check_rope(config: Any, max_model_len: int) -> None:
    rope = getattr(config, "rope_parameters", None) or {}
    kind = rope.get("rope_type")
    limit = rope.get("original_max_position_embeddings") or getattr(
        config, "original_max_position_embeddings", config.max_position_embeddings
    )
    if kind in _BATCH_DEPENDENT_ROPE and max_model_len > limit:
        raise ModelError(
            f"{config.model_type} turns all positions another way beyond {limit} tokens ({kind}): "
            f"set --max-model-len {limit} or less"
        )


def load_model(directory: Path, config: Any, dtype: str, device: torch.device) -> nn.Module:
    """The causal LM of the folder with our attention, in evaluation mode, on `device`.

    Weights have `dtype` ("auto" is the checkpoint's). Raises ModelError if weights are missing or
    of the wrong shape.
    """
    try:
        model, report = _from_pretrained(directory, config, dtype)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"--model: {directory}: {_first_line(error)}") from error
    missing = sorted(report["missing_keys"]) + sorted(map(str, report["mismatched_keys"]))
    if missing:
        raise ModelError(f"--model: {directory} lacks {len(missing)} weights, such as {missing[0]}")
    loaded: nn.Module = model.eval().requires_grad_(False).to(device)
    return loaded


def _from_pretrained(directory: Path, config: Any, dtype: str) -> Any:
    """transformers' model and its report on what was loaded, or whatever it raises."""
    load = partial(
        transformers.AutoModelForCausalLM.from_pretrained,
        directory, config=config, dtype=dtype if dtype == "auto" else getattr(torch, dtype),
        attn_implementation=ATTENTION_NAME, local_files_only=True, use_safetensors=True,
        output_loading_info=True,
    )  # fmt: skip
    try:
        with lean_construction():
            return load()
    except Exception:  # noqa: BLE001 - a model's own fault comes again, in its own words
        _log.debug("%s is loaded with all of torch", directory, exc_info=True)
        return load()


def describe(config: Any, directory: Path) -> ModelInfo:
    """`describe_model`, with a ModelError for a config that lacks a number."""
    try:
        return describe_model(config, directory)
    except (AttributeError, json.JSONDecodeError) as error:
        raise ModelError(f"--model: {directory}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    text = f"{error} is missing" if isinstance(error, KeyError) else str(error).strip()
    return (text.splitlines() or [type(error).__name__])[0]
