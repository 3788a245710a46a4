"""The simulated model obeys grammars as a real one does."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.config import ClusterConfig
from engine.scheduling.output import SchedulerOutput
from engine.simulation.runner import SimulatedModelRunner
from frontend.structured.grammars import json_schema_grammar, regex_grammar
from tests.engine.simulation.conftest import MODEL_CONFIG
from tests.engine.simulation.test_runner import answer, make_config, run
from tests.support.json_schemas import json_schemas
from tests.support.tiny_tokenizer import VOCAB_SIZE, byte_level_backend, tiny_tokenizer

EOS = 2


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> ClusterConfig:
    """Of a model folder with a whole tokenizer."""
    folder: Path = tmp_path_factory.mktemp("model")
    byte_level_backend().save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps(MODEL_CONFIG | {"vocab_size": VOCAB_SIZE}))
    return make_config(folder)


def text_of(token_ids: list[int]) -> str:
    return tiny_tokenizer().decode(token_ids, skip_special_tokens=True)


def defaults(**sampling: Any) -> dict[str, Any]:
    return {"max_tokens": 300, "stop_token_ids": [EOS]} | sampling


@settings(
    max_examples=25, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(schema=json_schemas, seed=st.integers(0, 2**31), temperature=st.sampled_from([0.0, 1.0]))
def test_whatever_is_complete_is_valid_by_its_schema(
    config: ClusterConfig, schema: dict[str, Any], seed: int, temperature: float
) -> None:
    grammar = json_schema_grammar(schema)
    token_ids = answer(config, [], **defaults(grammar=grammar, seed=seed, temperature=temperature))
    assert token_ids[-1] == EOS
    jsonschema.validate(json.loads(text_of(token_ids)), schema)


def test_an_answer_that_moved_ends_alike(config: ClusterConfig) -> None:
    sampling = defaults(grammar=regex_grammar("([a-z]{3} ){4}", ""), seed=5)
    expected = answer(config, [], **sampling)
    assert len(set(expected)) > 5
    for delivered in range(1, len(expected)):
        assert answer(config, expected[:delivered], **sampling) == expected


def test_biases_bans_and_min_tokens_count_within_the_grammar(config: ClusterConfig) -> None:
    a, b = (tiny_tokenizer().encode(text, False)[-1] for text in "ab")
    choice = defaults(grammar=regex_grammar("[ab]{5}", ""), seed=1)
    assert text_of(answer(config, [], **choice, logit_bias=[(b, 50.0)])) == "bbbbb"
    assert text_of(answer(config, [], **choice, allowed_token_ids=[a, EOS])) == "aaaaa"
    assert text_of(answer(config, [], **choice, bad_words=[[a]])) == "bbbbb"
    assert re.fullmatch("[ab]{5}", text_of(answer(config, [], **choice, min_tokens=100)))


def test_a_grammar_that_fails_ends_its_request_alone(config: ClusterConfig) -> None:
    runner = SimulatedModelRunner(config)
    runs = [run(4, **defaults(grammar="nonsense")), run(4, **defaults())]
    failed, good = runner.submit(SchedulerOutput(runs)).result()
    assert "cannot be built" in failed.error
    assert good.token_id is not None
