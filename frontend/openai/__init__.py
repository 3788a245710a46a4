"""OpenAI's language: bodies, answers, errors, server-sent events."""
