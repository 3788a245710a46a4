"""How much one request may hold: counted before anything is rendered or tokenized."""

from dataclasses import dataclass
from typing import Any

import msgspec

from cluster.config import FrontendConfig
from cluster.errors import InvalidRequest

LEAVES = frozenset({str, int, float, bool, type(None)})
"""What holds nothing."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The limits of counts that are settings; those that never change are in the bodies' types."""

    max_messages: int
    max_prompts: int
    max_choices: int
    max_stop_strings: int
    max_tools: int
    max_json_depth: int

    @classmethod
    def of(cls, settings: FrontendConfig) -> "RequestLimits":
        """Those of this configuration."""
        return cls(**{name: getattr(settings, name) for name in cls.__slots__})

    @property
    def of_lists(self) -> dict[str, int]:
        """How many items the lists in a body may have, by their fields."""
        return {
            "messages": self.max_messages,
            "tools": self.max_tools,
            "functions": self.max_tools,
            "stop": self.max_stop_strings,
        }

    def check(self, body: msgspec.Struct) -> None:
        """Raises InvalidRequest, naming field and limit, for the first thing of which there is too much."""
        for field, limit in self.of_lists.items():
            _check_count(getattr(body, field, None), limit, field)
        for field in body.__struct_fields__:
            if _is_deeper(getattr(body, field), self.max_json_depth):
                raise InvalidRequest(
                    f"{field} is nested deeper than {self.max_json_depth} levels", field
                )

    def check_prompts(self, value: Any, field: str) -> None:
        """Raises InvalidRequest if the field holds too many prompts; token ids are one, however many."""
        if not (isinstance(value, list) and value and type(value[0]) is int):
            _check_count(value, self.max_prompts, field)

    def check_choices(self, num_choices: int, num_prompts: int) -> None:
        """Raises InvalidRequest if so many answers to each of so many prompts are too many."""
        if num_choices < 1 or num_choices * num_prompts > self.max_choices:
            raise InvalidRequest(
                f"n must be at least 1, and at most {self.max_choices} over all prompts, "
                f"not {num_choices}",
                "n",
            )


def _check_count(value: Any, limit: int, field: str) -> None:
    if isinstance(value, list) and len(value) > limit:
        raise InvalidRequest(f"{field} may hold at most {limit}, not {len(value)}", field)


def _is_deeper(value: Any, most: int) -> bool:
    """Whether containers are inside each other more than so many times, the value being the first."""
    level = [value]
    for _ in range(most):
        level = [item for holder in level for item in _contents(holder)]
        if not level:
            return False
    return True


def _contents(holder: Any) -> list[Any]:
    """What is in a list, an object or a struct that may hold more."""
    match holder:
        case list():
            items = holder
        case dict():
            items = list(holder.values())
        case msgspec.Struct():
            items = list(msgspec.structs.astuple(holder))
        case _:
            return []
    # A loop in Python: another thread can have a turn in the midst of a long list.
    return [item for item in items if type(item) not in LEAVES]
