"""What makes two models the same, told without reading all of their weights."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from cluster.errors import ModelError
from engine.execution.model_info import model_fingerprint, weights_stamp

LAYERS = [f"model.layers.{index}.weight" for index in range(8)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a model folder has of a config and weights: a quarter of a megabyte a layer."""
    weights = {name: torch.full((512, 256), index + 1.0) for index, name in enumerate(LAYERS)}
    save_file(weights, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    return tmp_path


def tune(folder: Path, name: str) -> None:
    """Change one of the weights."""
    path = folder / "model.safetensors"
    weights = {key: weight.clone() for key, weight in load_file(path).items()}
    weights[name] += torch.ones_like(weights[name])
    save_file(weights, path)


@pytest.mark.parametrize("name", [LAYERS[0], LAYERS[5], LAYERS[-1]])
def test_a_model_of_which_one_layer_was_tuned_is_another_one(name: str, folder: Path) -> None:
    before = model_fingerprint(folder)
    assert model_fingerprint(folder) == before
    tune(folder, name)
    assert model_fingerprint(folder) != before


def test_a_stamp_stays_while_nobody_writes_and_changes_when_somebody_does(folder: Path) -> None:
    before = weights_stamp(folder)
    assert weights_stamp(folder) == before
    path = folder / "model.safetensors"
    times = path.stat()
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert weights_stamp(folder) != before


def test_a_file_put_in_the_place_of_another_has_another_stamp(folder: Path) -> None:
    before = weights_stamp(folder)
    path = folder / "model.safetensors"
    shutil.copy2(path, folder / "copy")
    (folder / "copy").replace(path)
    assert weights_stamp(folder) != before


def test_a_file_that_is_missing_is_named(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"has no model\.safetensors"):
        weights_stamp(folder)
