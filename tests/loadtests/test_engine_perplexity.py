"""How well a text is predicted, against transformers on the same tokens."""

import math
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from cluster.errors import ModelError
from loadtests.engine_lab.options import EngineTarget
from loadtests.engine_lab.perplexity import (
    PerplexityReport,
    measure_perplexity,
    perplexity,
    perplexity_text,
    split_windows,
)
from tests.support.reference_model import ReferenceModel
from tests.support.tiny_model import make_tiny_model

TEXT = Path(__file__).with_name("perplexity.txt")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("llama"), max_model_len=640)


def expected_perplexity(folder: Path, token_ids: list[int], length: int) -> float:
    model = ReferenceModel(folder)._model
    logprobs: list[float] = []
    for window in split_windows(token_ids, length):
        with torch.inference_mode():
            rows = model(torch.tensor([list(window)])).logits[0, :-1].log_softmax(-1)
        logprobs += rows.gather(1, torch.tensor(window[1:])[:, None])[:, 0].tolist()
    return perplexity(logprobs)


def test_it_is_that_of_transformers_over_windows_and_chunks(folder: Path) -> None:
    text = TEXT.read_text(encoding="utf-8")[:2500]
    token_ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids
    assert len(token_ids) > 640 + 512  # several windows, of several chunks each
    report = measure_perplexity(EngineTarget(folder, "cpu", threads=1), text)
    expected = expected_perplexity(folder, token_ids, 640)
    assert report.float32 == pytest.approx(expected, rel=1e-3)
    assert report.chosen == pytest.approx(expected, rel=1e-3)
    assert report.tokens == len(token_ids) - len(split_windows(token_ids, 640))


def test_a_model_that_always_gives_half_is_as_puzzled_as_by_a_coin() -> None:
    assert perplexity([math.log(0.5)] * 7) == pytest.approx(2.0)


def test_a_token_that_nothing_precedes_is_not_a_window() -> None:
    assert split_windows(list(range(7)), 3) == [[0, 1, 2], [3, 4, 5]]
    assert split_windows(list(range(8)), 3) == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_the_line_says_what_the_smaller_weights_cost() -> None:
    report = PerplexityReport("tiny", "int8", 99, float32=20.0, chosen=20.1)
    assert report.growth == pytest.approx(0.005)
    assert "20.0000 with float32 weights, 20.1000 with quantization int8: +0.500%" in (
        perplexity_text(report)
    )


@pytest.mark.parametrize("text", ["", "a"])
def test_a_text_in_which_nothing_can_be_predicted_is_refused(folder: Path, text: str) -> None:
    with pytest.raises(ModelError, match="two tokens"):
        measure_perplexity(EngineTarget(folder, "cpu", threads=1), text)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        measure_perplexity(EngineTarget(tmp_path, "cpu", threads=1), "text")


def test_the_text_that_comes_along_is_long_enough_to_tell_weights_apart() -> None:
    assert len(TEXT.read_text(encoding="utf-8").split()) > 2500
