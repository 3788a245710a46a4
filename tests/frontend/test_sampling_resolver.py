"""What becomes of sampling fields that were never decoded, and of what models recommend."""

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster.config import ClusterConfig, ModelConfig
from cluster.errors import InvalidRequest, ModelError
from frontend.model_info import load_model_info
from frontend.openai.schemas import ChatBody, ChatMessage
from frontend.sampling_resolver import TOKENS_AT_ONCE, SamplingResolver
from tests.support.frontend_app import MODEL

RESOLVER = SamplingResolver(MODEL, [2], random.Random(1))


def translated(**fields: Any) -> ChatBody:
    """A body as the translation from another API makes it: by hand."""
    return ChatBody(messages=[ChatMessage(role="user", content="Hi")], **fields)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", 2.5),
        ("temperature", float("nan")),
        ("top_p", 0.0),
        ("min_p", 1.5),
        ("presence_penalty", 3.0),
        ("repetition_penalty", 0.0),
        ("seed", 2**63),
        ("priority", 2**40),
        ("stop", [""]),
        ("cache_salt", "a@b"),
        ("logit_bias", {"5": 101.0}),
        ("stop_token_ids", [-1]),
    ],
)
def test_limits_hold_for_a_body_that_was_not_decoded(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        RESOLVER.resolve(translated(**{field: value}))
    assert caught.value.param == field


def test_such_a_body_is_resolved_if_it_is_inside_of_them() -> None:
    sampling = RESOLVER.resolve(translated(temperature=2.0, top_p=1.0, stop_token_ids=[0]))
    assert (sampling.temperature, sampling.top_p, sampling.stop_token_ids) == (2.0, 1.0, [2, 0])


@pytest.mark.parametrize("recommended", [{"temperature": 3.0}, {"top_p": 0.0}, {"top_k": -2}])
def test_a_model_that_recommends_what_no_client_may_ask_for_is_refused(
    tmp_path: Path, recommended: dict[str, float]
) -> None:
    model = {"vocab_size": 100, "max_position_embeddings": 64}
    (tmp_path / "config.json").write_bytes(msgspec.json.encode(model))
    (tmp_path / "generation_config.json").write_bytes(msgspec.json.encode(recommended))
    config = ClusterConfig(model=ModelConfig(model=str(tmp_path)))
    with pytest.raises(ModelError, match=next(iter(recommended))):
        load_model_info(config)


@pytest.mark.parametrize("wrong", [-1, MODEL.vocab_size])
@pytest.mark.parametrize("place", [0, TOKENS_AT_ONCE - 1, TOKENS_AT_ONCE, 2 * TOKENS_AT_ONCE])
def test_a_wrong_token_id_is_found_wherever_it_is_in_a_long_list(wrong: int, place: int) -> None:
    token_ids = [0] * (2 * TOKENS_AT_ONCE + 1)
    RESOLVER.check_token_ids(token_ids, "prompt")
    token_ids[place] = wrong
    with pytest.raises(InvalidRequest, match=f"prompt: {wrong} is not a token id"):
        RESOLVER.check_token_ids(token_ids, "prompt")
