"""What a simulated engine takes from a model folder: sizes, limits, and words that can be read."""

import hashlib
import re
from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec

from cluster.errors import ModelError
from engine.execution.model_info import ModelInfo, describe_model

_READABLE = re.compile(r"[Ġ▁ ]?[A-Za-z]+|[.,;:!?]")
"""Tokens that are whole words or pieces of them: an answer of these is plain text at any length."""
_LEAST_READABLE = 64


class SimulatedModel(NamedTuple):
    """A model without weights."""

    info: ModelInfo
    fingerprint: str
    word_ids: "array[int]"
    """The tokens that it says, unless it is forced to say another: never a special one."""


def read_model_folder(directory: Path) -> SimulatedModel:
    """Raises ModelError, naming the file, if config.json or tokenizer.json tells too little."""
    config = _read(directory, "config.json")
    try:
        info = describe_model(SimpleNamespace(**config), directory)
    except (AttributeError, ValueError, TypeError, ZeroDivisionError) as error:
        raise ModelError(f"--model: {directory}/config.json: {error}") from error
    for name, number in info._asdict().items():
        if name != "eos_token_ids" and not (isinstance(number, int) and number > 0):
            raise ModelError(f"--model: {directory}/config.json: {name} is {number!r}")
    text = msgspec.json.encode(config, order="deterministic")
    fingerprint = f"simulated-{hashlib.blake2b(text, digest_size=16).hexdigest()}"
    return SimulatedModel(info, fingerprint, _word_ids(directory, info))


def _read(directory: Path, name: str) -> dict[str, Any]:
    try:
        content = msgspec.json.decode((directory / name).read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise ModelError(f"--model: {directory}/{name}: {error}") from error
    if not isinstance(content, dict):
        raise ModelError(f"--model: {directory}/{name} is not an object")
    return content


def _word_ids(directory: Path, info: ModelInfo) -> "array[int]":
    """Readable tokens where the tokenizer has some, else all that are not special."""
    tokenizer = _read(directory, "tokenizer.json")
    texts = _vocabulary(tokenizer.get("model"))
    added = {token["id"] for token in tokenizer.get("added_tokens") or []}
    never = added | set(info.eos_token_ids)
    plain = sorted(
        token_id for token_id in texts if token_id < info.vocab_size and token_id not in never
    )
    readable = [token_id for token_id in plain if _READABLE.fullmatch(texts[token_id])]
    chosen = readable if len(readable) >= _LEAST_READABLE else plain
    if not chosen:
        raise ModelError(f"--model: {directory}/tokenizer.json has no token but special ones")
    return array("i", chosen)


def _vocabulary(model: object) -> dict[int, str]:
    """Text by token id: of a mapping (BPE, WordPiece) or a list of pairs (Unigram)."""
    match model:
        case {"vocab": dict(by_text)}:
            return {token_id: text for text, token_id in by_text.items()}
        case {"vocab": list(pairs)}:
            return {token_id: str(pair[0]) for token_id, pair in enumerate(pairs)}
        case _:
            return {}
