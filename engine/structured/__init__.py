"""Grammars that answers must follow: which tokens they allow next. No torch."""
