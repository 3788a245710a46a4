"""What a chat request says of tools, checked."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from cluster.errors import InvalidRequest
from frontend.openai.schemas import (
    AllowedTools,
    ChatBody,
    FunctionDefinition,
    NamedFunction,
    NamedToolChoice,
)

ToolChoice = Literal["none", "auto", "required"] | NamedFunction


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The tools of a request and how the model may use them."""

    functions: tuple[FunctionDefinition, ...] = ()
    choice: Literal["none", "auto", "required", "named"] = "none"
    named: str = ""
    """The function that must be called, if the choice is `named`."""
    takes_several: bool = True
    """Whether one answer may hold several calls."""
    is_legacy: bool = False
    """Asked for with `functions`, from before there were tools, and to be answered likewise."""

    @property
    def param(self) -> str:
        """The field that errors name."""
        return "functions" if self.is_legacy else "tools"

    @property
    def is_forced(self) -> bool:
        """Whether the whole answer must be calls."""
        return self.choice in ("required", "named")

    def for_template(self) -> list[dict[str, Any]] | None:
        """The tools as chat templates expect them, with nothing in place of what is left out."""
        tools = [{"type": "function", "function": _described(f)} for f in self.functions]
        return tools or None


NO_TOOLS = ToolUse()


def read_tool_use(body: ChatBody) -> ToolUse:
    """What the body says of tools. Raises InvalidRequest naming the field that is wrong."""
    if body.functions or body.function_call is not None:
        return _read_legacy(body)
    choice = _choice(body)
    use = _checked(
        tuple(tool.function for tool in body.tools or []),
        choice.mode if isinstance(choice, AllowedTools) else choice,
        "tool_choice",
        takes_several=body.parallel_tool_calls is not False,
    )
    return _restricted(use, choice) if isinstance(choice, AllowedTools) else use


def _choice(body: ChatBody) -> ToolChoice | AllowedTools:
    choice = body.tool_choice if body.tool_choice is not None else "auto"
    if not isinstance(choice, NamedToolChoice):
        return choice
    found = choice.function if choice.type == "function" else choice.allowed_tools
    if found is None:
        raise InvalidRequest(
            f"tool_choice.{choice.type} is required with type {choice.type}",
            f"tool_choice.{choice.type}",
        )
    return found


def _restricted(use: ToolUse, allowed: AllowedTools) -> ToolUse:
    """The use of some of the tools: the model hears of no others, so that it calls no others."""
    param = "tool_choice.allowed_tools.tools"
    names = {tool.function.name for tool in allowed.tools}
    if not names:
        raise InvalidRequest(f"{param} must not be empty", param)
    unknown = names - {function.name for function in use.functions}
    if unknown:
        raise InvalidRequest(f"{param}: there is no function {min(unknown)!r}", param)
    return replace(use, functions=tuple(f for f in use.functions if f.name in names))


def _read_legacy(body: ChatBody) -> ToolUse:
    if body.tools:
        raise InvalidRequest("tools and functions exclude each other", "functions")
    choice = body.function_call if body.function_call is not None else "auto"
    return _checked(
        tuple(body.functions or []), choice, "function_call", takes_several=False, is_legacy=True
    )


def _checked(
    functions: tuple[FunctionDefinition, ...],
    choice: ToolChoice,
    choice_param: str,
    *,
    takes_several: bool,
    is_legacy: bool = False,
) -> ToolUse:
    named = choice.name if isinstance(choice, NamedFunction) else ""
    use = ToolUse(
        functions,
        choice if isinstance(choice, str) else "named",
        named,
        takes_several,
        is_legacy,
    )
    if not functions:
        if use.is_forced:
            raise InvalidRequest(
                f"{choice_param} asks for a tool, and there are no {use.param}", choice_param
            )
        return ToolUse(is_legacy=is_legacy)
    _check_functions(functions, use)
    if named and named not in {function.name for function in functions}:
        raise InvalidRequest(f"{choice_param}: there is no function {named!r}", choice_param)
    return use


def _check_functions(functions: tuple[FunctionDefinition, ...], use: ToolUse) -> None:
    for index, function in enumerate(functions):
        kind = (function.parameters or {}).get("type", "object")
        if kind != "object":
            path = f"{use.param}[{index}]{'' if use.is_legacy else '.function'}.parameters"
            raise InvalidRequest(
                f"{path} must be the schema of an object, not of type {kind!r}", path
            )


def _described(function: FunctionDefinition) -> dict[str, Any]:
    described = msgspec.structs.asdict(function)
    described.pop("strict")  # is about decoding, and no model was trained on it
    return {name: value for name, value in described.items() if value is not None}
