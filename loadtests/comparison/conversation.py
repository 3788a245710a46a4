"""Conversations: who asks what and when, fixed by a seed before anything is sent."""

import random
from typing import NamedTuple

from loadtests.arrivals import poisson_arrivals

VOCABULARY_SIZE = 1000
"""Token ids are below this, as in every random prompt of the load tests."""


class ConversationShape(NamedTuple):
    """What the conversations of a load have in common."""

    question_tokens: int
    answer_tokens: int
    turns: int = 1
    think_seconds: float = 0.0
    """Mean time from the end of an answer to the next question."""
    system_prompts: int = 0
    """How many different ones there are; every conversation opens with one of them."""
    system_tokens: int = 0

    @property
    def longest_tokens(self) -> int:
        """Tokens of a conversation at its end, at most."""
        return self.system_tokens + self.turns * (self.question_tokens + self.answer_tokens)


class Turn(NamedTuple):
    """One question of a conversation."""

    think_seconds: float
    """How long after the answer before it; of the first, after the conversation's start."""
    question: list[int]


class Conversation(NamedTuple):
    """What one person asks. Each prompt is all that was said before, answers included."""

    starts_at_seconds: float
    """From the start of the load."""
    system_prompt: list[int]
    turns: list[Turn]


def make_conversations(
    shape: ConversationShape, number: int, conversations_per_second: float, seed: int
) -> list[Conversation]:
    """`number` conversations that start as a Poisson process; equal seeds give equal ones."""
    generator = random.Random(f"conversations {seed}")
    system_prompts = [
        _tokens(generator, shape.system_tokens) for _ in range(shape.system_prompts)
    ] or [[]]
    starts = poisson_arrivals(conversations_per_second, number, seed)
    return [
        Conversation(start, generator.choice(system_prompts), _make_turns(generator, shape))
        for start in starts
    ]


def _make_turns(generator: random.Random, shape: ConversationShape) -> list[Turn]:
    turns = []
    for position in range(shape.turns):
        has_thought = position > 0 and shape.think_seconds > 0
        think_seconds = generator.expovariate(1 / shape.think_seconds) if has_thought else 0.0
        turns.append(Turn(think_seconds, _tokens(generator, shape.question_tokens)))
    return turns


def _tokens(generator: random.Random, number: int) -> list[int]:
    return generator.choices(range(VOCABULARY_SIZE), k=number)
