"""A tokenizer's folder, and a matcher of any grammar over it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from llguidance import LLTokenizer

from engine.structured.vocabulary import load_vocabulary
from tests.support.tiny_tokenizer import byte_level_backend

VOCAB_SIZE = 512
EOS = 2


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tokenizer.json and nothing else."""
    folder = tmp_path_factory.mktemp("tokenizer")
    byte_level_backend().save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def load(tokenizer_folder: Path) -> Callable[[], LLTokenizer]:
    """Loads the folder's vocabulary."""
    return lambda: load_vocabulary(tokenizer_folder, VOCAB_SIZE, [EOS])
