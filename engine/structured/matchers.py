"""Grammars, built once and kept for a while: requests come with the same ones again and again."""

import threading
from collections.abc import Callable
from functools import cache, lru_cache

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from engine.structured.errors import GrammarFailed
from engine.structured.matcher import GrammarMatcher

_KEPT_GRAMMARS = 64
_LIMITS = LLParserLimits(
    max_grammar_size=5_000,
    max_items_in_row=3_000,
    initial_lexer_fuel=50_000,
    max_lexer_states=50_000,  # of 1 to 2 kB; they become more while an answer gets longer
    verbose_errors=False,
)
"""`frontend.structured.grammar_check` refuses what is over them before it gets here."""


class MatcherFactory:
    """Makes the matchers of requests. Safe to use from several threads."""

    def __init__(self, load_vocabulary: Callable[[], LLTokenizer]) -> None:
        self.vocabulary = cache(load_vocabulary)
        """The model's vocabulary, loaded when it is first asked for. Raises GrammarFailed."""
        self._lock = threading.Lock()
        self._prototype = lru_cache(maxsize=_KEPT_GRAMMARS)(self._build)

    def new_matcher(self, grammar: str) -> GrammarMatcher:
        """A matcher at the beginning of the grammar. Raises GrammarFailed if it cannot be built.

        A new grammar takes milliseconds, the worst that are let in a tenth of a second; needs a deep
        stack (`cluster.deep_call`).
        """
        with self._lock:
            return GrammarMatcher(
                self._prototype(grammar).deep_copy(), self.vocabulary().vocab_size
            )

    def _build(self, grammar: str) -> LLMatcher:
        matcher = LLMatcher(self.vocabulary(), grammar, log_level=0, limits=_LIMITS)
        if matcher.is_error():
            raise GrammarFailed(f"the grammar cannot be built: {matcher.get_error()}")
        return matcher
