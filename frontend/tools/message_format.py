"""How the answers to a request are taken apart."""

from collections.abc import Callable
from dataclasses import dataclass, field

from cluster.config import FrontendConfig
from cluster.errors import InvalidRequest
from frontend.openai.messages import template_messages
from frontend.openai.schemas import ChatBody
from frontend.reasoning.reasoning_formats import pick_reasoning_format
from frontend.reasoning.reasoning_parser import ReasoningParser
from frontend.tokenizer import Tokenizer
from frontend.tools.forced_calls import forced_calls_parser
from frontend.tools.message_parser import MessageParser
from frontend.tools.tool_formats import openai_call_id, pick_tool_format
from frontend.tools.tool_parser import FirstCallOnly, ToolParser
from frontend.tools.tool_use import ToolUse


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """The parsers of one request's choices, and the form in which clients want what they find."""

    new_reasoning_parser: Callable[[], ReasoningParser] | None = None
    new_tool_parser: Callable[[], ToolParser] | None = None
    new_call_id: Callable[[], str] = openai_call_id
    tool_use: ToolUse = field(default_factory=ToolUse)
    shows_reasoning: bool = True
    shows_special_tokens: bool = False
    """Whether special tokens must be spelled out in the text, since a parser looks for some."""

    @property
    def is_plain(self) -> bool:
        """Whether all text is content."""
        return self.new_reasoning_parser is None and self.new_tool_parser is None

    @property
    def finish_label(self) -> str:
        """Why an answer with calls ended well, in OpenAI's words."""
        if self.tool_use.choice == "named":
            return "stop"  # what the client asked for is no choice of the model's
        return "function_call" if self.tool_use.is_legacy else "tool_calls"

    def new_parser(self) -> MessageParser:
        """A parser for one choice."""
        return MessageParser(
            self.new_reasoning_parser() if self.new_reasoning_parser is not None else None,
            self.new_tool_parser() if self.new_tool_parser is not None else None,
        )


PLAIN = MessageFormat()


class MessageFormats:
    """Makes the format of each request, from the model's chat template and the configured parsers."""

    def __init__(self, config: FrontendConfig, tokenizer: Tokenizer) -> None:
        template = tokenizer.chat_template
        self._tokenizer = tokenizer
        self._takes_tools = template is not None and template.takes_tools
        self._reasoning = pick_reasoning_format(config.reasoning_parser)
        self._tools = pick_tool_format(
            config.tool_call_parser, template.source if template is not None else None
        )

    def of(
        self, body: ChatBody, use: ToolUse, prompt_text: str, *, is_constrained: bool
    ) -> MessageFormat:
        """The format of the answers to a prompt.

        `is_constrained` says that a grammar rules the answer from its first token, so that the model
        cannot reason. Raises InvalidRequest if the model would never hear of the tools.
        """
        if use.choice == "auto" and not self._takes_tools:
            raise InvalidRequest(
                f"the model's chat template has no place for {use.param}; "
                "a tool_choice of required, or of a function by its name, needs none",
                use.param,
            )
        reasoning = None if is_constrained else self._reasoning
        begun_text = _begun_text(body)
        return MessageFormat(
            None if reasoning is None else lambda: reasoning.new_parser(prompt_text, begun_text),
            None if use.choice == "none" else lambda: self._tool_parser(use),
            self._tools.new_call_id,
            use,
            shows_reasoning=body.include_reasoning is not False,
            shows_special_tokens=self._looks_for_special_tokens(use),
        )

    def _looks_for_special_tokens(self, use: ToolUse) -> bool:
        markers = self._reasoning.markers if self._reasoning is not None else ()
        if use.choice == "auto":
            markers += self._tools.markers
        ids = (self._tokenizer.backend.token_to_id(marker) for marker in markers)
        return any(token_id in self._tokenizer.special_token_ids for token_id in ids)

    def _tool_parser(self, use: ToolUse) -> ToolParser:
        parser = forced_calls_parser(use) if use.is_forced else self._tools.new_parser()
        return parser if use.takes_several else FirstCallOnly(parser)


def _begun_text(body: ChatBody) -> str:
    """What the client has the answer begin with."""
    if not body.continue_final_message:
        return ""
    text: str = template_messages(body.messages[-1:])[0]["content"]
    return text
