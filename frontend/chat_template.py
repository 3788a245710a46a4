"""The model's chat template: messages to the text of a prompt, in a sandbox.

Templates come with the model's weights, so they are somebody else's programs: they see the
messages and nothing else. The environment is the one that the templates are written for, as
transformers sets it up.
"""

import json
import secrets
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import meta, nodes
from jinja2.exceptions import TemplateError, TemplateSyntaxError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from cluster.errors import InvalidRequest, ModelError

Message = dict[str, Any]


class _GenerationTag(Extension):
    """`{% generation %}` marks the assistant's text for training; here its body is plain text."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The body of the block."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """A compiled template with the special tokens that it may write."""

    def __init__(self, source: str, special_tokens: dict[str, str] | None = None) -> None:
        """Raises ModelError if the source is not a template."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = _strftime_now
        try:
            self._template = environment.from_string(source)
            variables = meta.find_undeclared_variables(environment.parse(source))
        except TemplateSyntaxError as error:
            raise ModelError(f"the chat template does not compile: {error}") from error
        self.source = source
        self.takes_tools = "tools" in variables
        """Whether a model that is prompted by it hears of tools."""
        self._special_tokens = special_tokens or {}
        self._knows_developer = "developer" in source

    def render(
        self,
        messages: list[Message],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        tools: list[Any] | None = None,
        variables: dict[str, Any] | None = None,
    ) -> str:
        """The prompt's text; with `continue_final_message` it ends inside the last message.

        Raises InvalidRequest, with the template's own words, for messages that it does not take.
        """
        messages = [self._adapt_role(message) for message in messages]
        end_mark = secrets.token_hex(16) if continue_final_message else ""
        if end_mark:
            messages[-1] = {**messages[-1], "content": messages[-1]["content"] + end_mark}
        try:
            text = self._template.render(
                **{**self._special_tokens, **(variables or {})},
                messages=messages,
                tools=tools,
                add_generation_prompt=add_generation_prompt,
            )
        except Exception as error:  # whatever a template raises is about its input
            words = error.message if isinstance(error, TemplateError) else str(error)
            raise InvalidRequest(
                f"the model's chat template refuses these messages: {words}", "messages"
            ) from error
        if not end_mark:
            return text
        before, mark, _ = text.rpartition(end_mark)
        if not mark:
            raise InvalidRequest(
                "the model's chat template does not show the final message, "
                "so it cannot be continued",
                "continue_final_message",
            )
        return before

    def _adapt_role(self, message: Message) -> Message:
        if message["role"] == "developer" and not self._knows_developer:
            return {**message, "role": "system"}
        return message


def _to_json(value: object, indent: int | None = None, **options: Any) -> str:
    # jinja's own filter escapes HTML, which models have not been trained on.
    return json.dumps(value, ensure_ascii=False, indent=indent, **options)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(time_format: str) -> str:
    return datetime.now().astimezone().strftime(time_format)
