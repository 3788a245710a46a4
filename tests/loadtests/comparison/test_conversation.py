from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from loadtests.comparison.conversation import (
    VOCABULARY_SIZE,
    ConversationShape,
    make_conversations,
)

SHAPE = ConversationShape(
    question_tokens=5, answer_tokens=3, turns=4, think_seconds=2.0, system_prompts=2, system_tokens=9
)  # fmt: skip


def test_equal_seeds_give_equal_conversations_and_others_do_not() -> None:
    first = make_conversations(SHAPE, 10, 1.0, seed=1)
    assert make_conversations(SHAPE, 10, 1.0, seed=1) == first
    assert make_conversations(SHAPE, 10, 1.0, seed=2) != first


@given(
    number=st.integers(1, 20),
    turns=st.integers(1, 4),
    question_tokens=st.integers(1, 9),
    seed=st.integers(),
)
def test_conversations_have_the_shape_that_was_asked_for(
    number: int, turns: int, question_tokens: int, seed: int
) -> None:
    shape = SHAPE._replace(turns=turns, question_tokens=question_tokens)
    conversations = make_conversations(shape, number, 3.0, seed)
    assert len(conversations) == number
    for conversation in conversations:
        assert len(conversation.system_prompt) == 9
        assert [len(turn.question) for turn in conversation.turns] == [question_tokens] * turns
        spoken = chain(conversation.system_prompt, *(t.question for t in conversation.turns))
        assert all(0 <= token_id < VOCABULARY_SIZE for token_id in spoken)


def test_conversations_share_as_many_system_prompts_as_there_are() -> None:
    conversations = make_conversations(SHAPE, 50, 1.0, seed=3)
    assert len({tuple(each.system_prompt) for each in conversations}) == 2


def test_questions_are_all_different() -> None:
    shape = ConversationShape(question_tokens=16, answer_tokens=1, turns=2)
    conversations = make_conversations(shape, 50, 1.0, seed=4)
    questions = [tuple(turn.question) for each in conversations for turn in each.turns]
    assert len(set(questions)) == 100


def test_nobody_thinks_before_the_first_question() -> None:
    conversations = make_conversations(SHAPE, 50, 1.0, seed=5)
    assert all(each.turns[0].think_seconds == 0 for each in conversations)
    later = [turn.think_seconds for each in conversations for turn in each.turns[1:]]
    assert 1.5 < sum(later) / len(later) < 2.5


def test_conversations_start_at_the_rate_asked_for() -> None:
    starts = [each.starts_at_seconds for each in make_conversations(SHAPE, 2000, 10.0, seed=6)]
    assert starts == sorted(starts)
    assert 9 < 2000 / starts[-1] < 11
