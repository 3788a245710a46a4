import json
from pathlib import Path
from typing import Any

import pytest

from loadtests.workload import (
    Ask,
    WorkloadError,
    chat_questions,
    prompts_from_file,
    random_token_prompts,
)


def bodies(asks: list[Ask]) -> list[dict[str, Any]]:
    return [json.loads(ask.body) for ask in asks]


def random_asks(number: int = 4, prefix_share: float = 0.0, seed: int = 1) -> list[Ask]:
    return random_token_prompts(
        "tiny",
        number,
        input_tokens=40,
        output_tokens=7,
        prefix_share=prefix_share,
        vocabulary_size=50,
        seed=seed,
    )


def test_random_prompts_have_the_exact_lengths_asked_for() -> None:
    asks = random_asks()
    for ask, body in zip(asks, bodies(asks), strict=True):
        assert len(body["prompt"]) == 40
        assert set(body["prompt"]) <= set(range(50))
        assert body["max_tokens"] == ask.expected_output_tokens == 7
        assert body["ignore_eos"] is True
        assert ask.path == "/v1/completions"


def test_equal_seeds_ask_the_same_and_others_do_not() -> None:
    assert random_asks(seed=1) == random_asks(seed=1)
    assert random_asks(seed=1) != random_asks(seed=2)


def test_the_shared_part_of_prompts_is_equal_and_the_rest_is_not() -> None:
    first, second = (body["prompt"] for body in bodies(random_asks(2, prefix_share=0.5)))
    assert first[:20] == second[:20]
    assert first[20:] != second[20:]


def test_every_request_streams_with_usage_and_token_ids() -> None:
    for body in bodies(random_asks() + chat_questions("tiny", 2, output_tokens=9, seed=1)):
        assert body["stream"] is True
        assert body["stream_options"] == {"include_usage": True}
        assert body["return_token_ids"] is True
        assert body["model"] == "tiny"


def test_lines_of_a_file_are_prompts_and_are_used_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "prompts"
    path.write_text('Hello\n\n{"prompt": "Bye", "max_tokens": 3, "temperature": 1.0}\n')
    asked = bodies(prompts_from_file("tiny", 3, path, as_chat=False, output_tokens=9))
    assert [body["prompt"] for body in asked] == ["Hello", "Bye", "Hello"]
    assert [body["max_tokens"] for body in asked] == [9, 3, 9]
    assert [body["temperature"] for body in asked] == [0.0, 1.0, 0.0]


def test_prompts_of_a_file_can_be_asked_as_chats(tmp_path: Path) -> None:
    path = tmp_path / "prompts"
    path.write_text('Hello\n{"prompt": "Bye"}\n{"messages": []}\n')
    asks = prompts_from_file("tiny", 3, path, as_chat=True, output_tokens=9)
    assert {ask.path for ask in asks} == {"/v1/chat/completions"}
    assert bodies(asks)[1]["messages"] == [{"role": "user", "content": "Bye"}]


@pytest.mark.parametrize(
    "line", ['{"prompt": ', '{"text": "Hello"}', '{"prompt": "a", "messages": []}']
)
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "prompts"
    path.write_text(f"Hello\n{line}\n")
    with pytest.raises(WorkloadError, match=r"prompts:2: "):
        prompts_from_file("tiny", 3, path, as_chat=False, output_tokens=9)


def test_a_file_without_prompts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "prompts"
    path.write_text("\n")
    with pytest.raises(WorkloadError, match="no prompt"):
        prompts_from_file("tiny", 3, path, as_chat=False, output_tokens=9)
    with pytest.raises(WorkloadError, match="missing"):
        prompts_from_file("tiny", 3, tmp_path / "missing", as_chat=False, output_tokens=9)
