"""Grammars over a real tokenizer: what may come next, and what cannot be built."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from llguidance import LLTokenizer

from engine.structured.errors import GrammarFailed
from engine.structured.matcher import GrammarMatcher
from engine.structured.matchers import MatcherFactory
from engine.structured.vocabulary import load_vocabulary
from frontend.structured.grammars import json_object_grammar, regex_grammar
from tests.engine.structured.conftest import EOS, VOCAB_SIZE
from tests.support.tiny_tokenizer import metaspace_backend, tiny_tokenizer

Load = Callable[[], LLTokenizer]


def new_matcher(load: Load, regex: str) -> GrammarMatcher:
    return MatcherFactory(load).new_matcher(regex_grammar(regex, ""))


def encode(text: str) -> list[int]:
    return tiny_tokenizer().encode(text, add_special_tokens=False)


def allowed(matcher: GrammarMatcher, output: list[int]) -> list[int]:
    return list(matcher.mask_after(output).allowed_from(0))


def test_only_tokens_that_begin_a_text_of_the_grammar_may_come_first(load: Load) -> None:
    spelled = [tiny_tokenizer().token_bytes(token_id) for token_id in range(3, 370)]
    expected = [i for i, text in enumerate(spelled, 3) if re.fullmatch(rb"[a-h]{1,3}", text)]
    assert len(expected) > 8
    assert allowed(new_matcher(load, "[a-h]{3}"), []) == expected


def test_where_only_one_text_may_follow_it_comes_in_the_tokenizers_own_tokens(load: Load) -> None:
    assert allowed(new_matcher(load, " the dog"), []) == encode(" the dog")[:1]


def test_after_a_complete_text_nothing_but_the_end_may_come(load: Load) -> None:
    assert allowed(new_matcher(load, "[0-9]{2}"), encode("42")) == [EOS]


def test_a_text_that_may_go_on_may_also_end(load: Load) -> None:
    mask = new_matcher(load, "[0-9]+").mask_after(encode("4"))
    assert mask.allows(EOS)
    assert mask.allows(encode("7")[0])


def test_special_tokens_and_padding_are_never_allowed(load: Load) -> None:
    mask = new_matcher(load, "(?s:.*)").mask_after([])
    assert not any(mask.allows(token_id) for token_id in (0, 1))
    assert not any(mask.allows(token_id) for token_id in range(400, VOCAB_SIZE))


def test_a_moved_output_is_followed_as_if_it_had_been_said_here(load: Load) -> None:
    output = encode('{"a": [1, 2, {"b": "the dog"}]')
    factory = MatcherFactory(load)
    here = factory.new_matcher(json_object_grammar())
    for length in range(len(output) + 1):
        elsewhere = factory.new_matcher(json_object_grammar())
        assert here.mask_after(output[:length]).bits == elsewhere.mask_after(output[:length]).bits


def test_matchers_of_one_grammar_do_not_disturb_each_other(load: Load) -> None:
    factory = MatcherFactory(load)
    first, second = (factory.new_matcher(regex_grammar("ab", "")) for _ in range(2))
    first.mask_after(encode("a"))
    assert allowed(second, []) == encode("a")


def test_an_output_that_does_not_follow_the_grammar_fails(load: Load) -> None:
    with pytest.raises(GrammarFailed, match="cannot be followed"):
        new_matcher(load, "[0-9]+").mask_after(encode("a"))


@pytest.mark.parametrize("grammar", ["", "nonsense", '{"grammars": 5}', "start: %json {"])
def test_a_grammar_that_is_none_fails(load: Load, grammar: str) -> None:
    with pytest.raises(GrammarFailed, match="cannot be built"):
        MatcherFactory(load).new_matcher(grammar)


def test_a_vocabulary_is_loaded_once_and_not_before_it_is_needed(load: Load) -> None:
    loaded: list[LLTokenizer] = []

    def count() -> LLTokenizer:
        loaded.append(load())
        return loaded[-1]

    factory = MatcherFactory(count)
    assert not loaded
    for _ in range(3):
        factory.new_matcher(regex_grammar("a", ""))
    assert len(loaded) == 1


# ── vocabularies ─────────────────────────────────────────────────────────────────────────────


def test_a_model_that_names_no_end_of_text_has_its_tokenizers(tmp_path: Path) -> None:
    tiny_tokenizer().backend.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": {"content": "<|im_start|>"}}')
    assert load_vocabulary(tmp_path, VOCAB_SIZE, []).eos_tokens == [1]
    (tmp_path / "tokenizer_config.json").write_text("{}")
    with pytest.raises(GrammarFailed, match="no end-of-text"):
        load_vocabulary(tmp_path, VOCAB_SIZE, [])


def test_a_tokenizer_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    with pytest.raises(GrammarFailed, match=r"tokenizer\.json"):
        load_vocabulary(tmp_path, VOCAB_SIZE, [EOS])
    metaspace_backend().save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(GrammarFailed, match="decoder"):
        load_vocabulary(tmp_path, VOCAB_SIZE, [EOS])
