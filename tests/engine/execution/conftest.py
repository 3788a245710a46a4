"""Tiny models, made once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.tiny_model import make_tiny_model

TinyModel = Callable[[str], Path]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    """The folder of a tiny model of a family."""
    made: dict[str, Path] = {}

    def folder(family: str) -> Path:
        if family not in made:
            made[family] = make_tiny_model(tmp_path_factory.mktemp(family), family, tokenizer=False)
        return made[family]

    return folder
