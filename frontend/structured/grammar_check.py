"""Whether a grammar can be used, found out here, so that no engine is asked for what it cannot do."""

from functools import cache, lru_cache

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from cluster.deep_call import call_deep

MAX_GRAMMAR_CHARACTERS = 64 * 1024
"""A grammar travels with each of its requests, and errors are to stay readable."""
MAX_FAULT_CHARACTERS = 200
_CACHED_GRAMMARS = 128

_LIMITS = LLParserLimits(
    max_grammar_size=5_000,  # symbols: 600 optional properties, 1000 required ones
    max_items_in_row=3_000,  # what that many optional properties need
    initial_lexer_fuel=50_000,
    verbose_errors=False,  # or an error would repeat the client's whole grammar
)
"""What an engine can build in a tenth of a second: `engine.structured.matchers` has the same."""


def grammar_fault(grammar: str) -> str:
    """Why the library's grammar cannot be used; empty if it can.

    Builds it, for a vocabulary of single bytes. That does not hold Python's lock, but may take some
    tenths of a second: call it in worker threads. What was asked before is answered from memory.
    """
    if len(grammar) > MAX_GRAMMAR_CHARACTERS:
        return f"it has {len(grammar)} characters, the limit is {MAX_GRAMMAR_CHARACTERS}"
    return _built_fault(grammar)


@lru_cache(maxsize=_CACHED_GRAMMARS)
def _built_fault(grammar: str) -> str:
    matcher = call_deep(LLMatcher, _bytes(), grammar, log_level=0, limits=_LIMITS)
    if matcher.is_error():
        return _in_short(matcher.get_error())
    matcher.compute_bitmask()  # finds out whether there is any first byte
    return "no text matches it" if matcher.is_error() else ""


@cache
def _bytes() -> LLTokenizer:
    return LLTokenizer("byte")


def _in_short(error: str) -> str:
    """The first words of an error, which may go on with pages of the client's own text."""
    words = " ".join(error.partition("<non-verbose/>")[0].split())
    if len(words) <= MAX_FAULT_CHARACTERS:
        return words
    return words[:MAX_FAULT_CHARACTERS] + " …"
