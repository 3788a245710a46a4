"""OpenAI's Responses API, on the same core as chat completions."""
