"""The one error of grammars in an engine."""


class GrammarFailed(ValueError):
    """A grammar cannot be built or followed: its request ends, and nobody else is concerned."""
