import pytest

from frontend.reasoning.reasoning_formats import REASONING_FORMATS
from frontend.reasoning.reasoning_tokens import ReasoningTokens
from tests.support.tiny_tokenizer import tiny_tokenizer


def counted(text: str, batch: int) -> int:
    tokenizer = tiny_tokenizer()
    token_ids = tokenizer.encode(text, add_special_tokens=False)
    tokens = ReasoningTokens(tokenizer, [], REASONING_FORMATS["think"].new_parser(""))
    for start in range(0, len(token_ids), batch):
        tokens.push(token_ids[start : start + batch])
    return tokens.num_tokens


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_tokens_count_up_to_the_end_of_the_reasoning_however_they_come(batch: int) -> None:
    thought = "<think>the quick dog</think>"
    num_tokens = len(tiny_tokenizer().encode(thought, add_special_tokens=False))
    assert counted(f"{thought}\nHow are you?", batch) == num_tokens


def test_an_answer_without_reasoning_has_no_such_tokens() -> None:
    assert counted("How are you?", 1) == 0


def test_all_tokens_of_an_unfinished_thought_count() -> None:
    text = "<think>the lazy dog"
    assert counted(text, 2) == len(tiny_tokenizer().encode(text, add_special_tokens=False))
