"""The masks of a step: of whoever has a grammar, and nobody else's concern."""

import gc
import logging
import threading
from collections.abc import Callable
from weakref import ref

import pytest
from llguidance import LLTokenizer

from engine.request import Request
from engine.scheduling.output import ScheduledRequest
from engine.structured.errors import GrammarFailed
from engine.structured.step_masks import NO_MASKS, GrammarMasks
from frontend.structured.grammars import regex_grammar
from tests.support.serving import make_request
from tests.support.tiny_tokenizer import tiny_tokenizer

Load = Callable[[], LLTokenizer]
PROMPT = [5, 6, 7]


def request_for(regex: str) -> Request:
    return make_request(PROMPT, grammar=regex_grammar(regex, ""))


def last_run(request: Request) -> ScheduledRequest:
    return ScheduledRequest(request, request.num_tokens - 1, 1, [])


def token(text: str) -> int:
    [token_id] = tiny_tokenizer().encode(text, add_special_tokens=False)
    return token_id


def no_vocabulary() -> LLTokenizer:
    raise GrammarFailed("no vocabulary")


def test_a_step_without_grammars_starts_nothing() -> None:
    before = threading.active_count()
    assert GrammarMasks(no_vocabulary).begin([last_run(make_request(PROMPT))]) is NO_MASKS
    assert threading.active_count() == before


def test_each_request_has_its_own_mask_and_others_have_none(load: Load) -> None:
    digits, letters, free = request_for("[0-9]"), request_for("[a-z]"), make_request(PROMPT)
    masks = GrammarMasks(load).begin(map(last_run, [digits, letters, free]))
    of_digits, of_letters = masks.of(digits), masks.of(letters)
    assert of_digits is not None
    assert of_letters is not None
    assert (of_digits.allows(token("5")), of_digits.allows(token("a"))) == (True, False)
    assert (of_letters.allows(token("5")), of_letters.allows(token("a"))) == (False, True)
    assert masks.of(free) is None


def test_a_chunk_that_draws_nothing_builds_the_matcher_and_makes_no_mask(load: Load) -> None:
    request = request_for("[0-9]")
    masks = GrammarMasks(load)
    assert masks.begin([ScheduledRequest(request, 0, 2, [], reaches_end=False)]).of(request) is None
    assert masks.begin([last_run(request)]).of(request) is not None


def test_a_request_goes_on_where_it_was(load: Load) -> None:
    request, masks = request_for("[0-9][a-z]"), GrammarMasks(load)
    masks.begin([last_run(request)]).of(request)
    request.token_ids.append(token("5"))
    mask = masks.begin([last_run(request)]).of(request)
    assert mask is not None
    assert (mask.allows(token("5")), mask.allows(token("a"))) == (False, True)


def test_a_request_whose_grammar_fails_does_so_alone(load: Load) -> None:
    broken, good = make_request(PROMPT, grammar="nonsense"), request_for("a")
    masks = GrammarMasks(load).begin([last_run(broken), last_run(good)])
    assert masks.of(good) is not None
    with pytest.raises(GrammarFailed):
        masks.of(broken)


def test_a_request_that_is_gone_is_forgotten(load: Load) -> None:
    request, masks = request_for("a"), GrammarMasks(load)
    masks.begin([last_run(request)]).of(request)
    gone = ref(request)
    del request
    gc.collect()
    assert gone() is None


def test_more_requests_than_threads_all_get_masks(load: Load) -> None:
    requests = [request_for(f"{number}") for number in range(40)]
    masks = GrammarMasks(load).begin(map(last_run, requests))
    assert all(masks.of(request) is not None for request in requests)


def test_a_vocabulary_that_cannot_be_loaded_is_told_of_and_ends_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        GrammarMasks(no_vocabulary).warm_up()
    assert "no vocabulary" in caplog.text
