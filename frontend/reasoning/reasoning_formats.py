"""The ways in which models write their reasoning, by the names that vLLM has for them."""

from dataclasses import dataclass

from frontend.reasoning.think_parser import ThinkParser


@dataclass(frozen=True, slots=True)
class ReasoningFormat:
    """Two marks around the reasoning, which comes first."""

    first_mark: str
    last_mark: str
    is_always_open: bool = False
    """The model reasons even where nothing says so: what has no marks is reasoning."""

    @property
    def markers(self) -> tuple[str, ...]:
        """What must be seen in the text, even where these are special tokens."""
        return (self.first_mark, self.last_mark)

    def new_parser(self, prompt_text: str, begun_text: str = "") -> ThinkParser:
        """A parser for an answer to this prompt, which may have begun the reasoning, or ended it.

        `begun_text` is the client's beginning of the answer: content, but for what it says by marks.
        """
        if begun_text.strip():
            is_open = begun_text.rfind(self.first_mark) > begun_text.rfind(self.last_mark)
            return ThinkParser(
                self.first_mark, self.last_mark, is_open=is_open, is_over=not is_open
            )
        end = prompt_text.rstrip()
        is_open = end.endswith(self.first_mark) or (
            self.is_always_open and not end.endswith(self.last_mark)
        )
        return ThinkParser(self.first_mark, self.last_mark, is_open=is_open)


_THINK = ReasoningFormat("<think>", "</think>")

REASONING_FORMATS: dict[str, ReasoningFormat] = {
    "deepseek_r1": ReasoningFormat("<think>", "</think>", is_always_open=True),
    "qwen3": _THINK,
    "think": _THINK,
    "granite": ReasoningFormat("Here is my thought process:", "Here is my response:"),
    "mistral": ReasoningFormat("[THINK]", "[/THINK]"),
}


def pick_reasoning_format(name: str) -> ReasoningFormat | None:
    """The format of that name; none for `none`."""
    return None if name == "none" else REASONING_FORMATS[name]
