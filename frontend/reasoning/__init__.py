"""Reasoning: what a model thinks aloud before it answers, told apart from the answer."""
