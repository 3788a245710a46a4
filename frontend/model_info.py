"""What the frontend must know of the model, read from the JSON files of its folder."""

from pathlib import Path
from typing import Any

import msgspec

from cluster.config import ClusterConfig
from cluster.errors import ModelError
from frontend.openai.limits import MinP, RepetitionPenalty, Temperature, TopK, TopP


class GenerationDefaults(msgspec.Struct, frozen=True):
    """Sampling values that the model's authors recommend; None where they say nothing."""

    temperature: Temperature | None = None
    top_k: TopK | None = None
    top_p: TopP | None = None
    min_p: MinP | None = None
    repetition_penalty: RepetitionPenalty | None = None
    max_new_tokens: int | None = None


class ModelInfo(msgspec.Struct, frozen=True):
    """The served model's name and limits, and what it recommends."""

    name: str
    max_model_len: int
    """Longest prompt plus answer, in tokens."""
    vocab_size: int
    """Token ids are below this, in prompts and in everything that names tokens."""
    eos_token_ids: tuple[int, ...] = ()
    defaults: GenerationDefaults = GenerationDefaults()
    hidden_size: int | None = None
    """Numbers in an embedding, where the folder says."""


def load_model_info(config: ClusterConfig) -> ModelInfo:
    """Read `config.json` and `generation_config.json` of the model folder.

    Raises ModelError if a file is missing or says something that cannot be used.
    """
    folder = config.model_directory
    model = read_json_object(folder / "config.json")
    text_model = {**model, **(model.get("text_config") or {})}
    generation_path = folder / "generation_config.json"
    generation = read_json_object(generation_path) if generation_path.exists() else {}
    eos = generation.get("eos_token_id", text_model.get("eos_token_id"))
    try:
        return ModelInfo(
            name=config.model.served_model_name or folder.resolve().name,
            max_model_len=_max_model_len(text_model, config.model.max_model_len),
            vocab_size=msgspec.convert(text_model["vocab_size"], int),
            eos_token_ids=_token_ids(eos),
            defaults=msgspec.convert(generation, GenerationDefaults),
            hidden_size=msgspec.convert(text_model.get("hidden_size"), int | None),
        )
    except KeyError as error:
        raise ModelError(f"{folder / 'config.json'} has no {error}") from error
    except msgspec.ValidationError as error:
        raise ModelError(f"the configuration in {folder} cannot be used: {error}") from error


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object in the file. Raises ModelError naming the file if there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise ModelError(f"{path} is not a JSON object: {error}") from error


def _max_model_len(model: dict[str, Any], wanted: int | None) -> int:
    own = msgspec.convert(model["max_position_embeddings"], int)
    if wanted is not None and wanted > own:
        raise ModelError(f"max_model_len {wanted} is over the model's own limit of {own} tokens")
    return wanted or own


def _token_ids(value: object) -> tuple[int, ...]:
    if value is None:
        return ()
    return tuple(msgspec.convert(value if isinstance(value, list) else [value], list[int]))
