"""A stream put together again: what its client has in the end, however it was cut."""

import json
from typing import Any


def events_of(text: str) -> list[Any]:
    """The JSON objects of a stream that ended well."""
    lines = [line for line in text.split("\n\n") if line and not line.startswith(":")]
    assert lines[-1] == "data: [DONE]", text
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def merged(chunks: list[Any]) -> Any:
    """All that a client has of a stream in the end, whichever way it was cut into chunks."""
    answer: dict[str, Any] = {"choices": {}}
    for chunk in chunks:
        if chunk.get("usage") is not None:
            assert "usage" not in answer, "usage comes twice"
            answer["usage"] = chunk["usage"]
        for choice in chunk["choices"]:
            whole = answer["choices"].setdefault(choice["index"], {})
            for key, value in choice.items():
                join(whole, key, value)
    return answer


def join(whole: dict[str, Any], key: str, value: Any) -> None:
    """Add a later piece: texts and lists get longer, maps go deeper, all else is said once."""
    known = whole.get(key)
    if isinstance(value, dict) and isinstance(known, dict):
        for inner, piece in value.items():
            join(known, inner, piece)
    elif isinstance(value, str | list) and isinstance(known, type(value)) and key != "role":
        whole[key] += value
    elif value is not None:
        assert known is None or known == value, f"{key} is {known} and then {value}"
        whole[key] = value
