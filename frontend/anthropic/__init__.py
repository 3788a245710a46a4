"""Anthropic's API, on the same core as chat completions."""
