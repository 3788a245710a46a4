"""What the parsers found in an answer, in OpenAI's shapes."""

from collections.abc import Callable, Sequence

from frontend.openai.responses import (
    AnsweredMessage,
    AnsweredToolCall,
    CalledFunction,
    CalledFunctionDelta,
    ChatDelta,
    ToolCallDelta,
)
from frontend.tools.message_format import MessageFormat
from frontend.tools.pieces import CallArguments, CallBegins, ContentPiece, Piece, ReasoningPiece


def whole_message(pieces: Sequence[Piece], message_format: MessageFormat) -> AnsweredMessage:
    """The assistant's turn; its content is null where there is nothing but reasoning and calls."""
    content = "".join(piece.text for piece in pieces if isinstance(piece, ContentPiece))
    reasoning = "".join(piece.text for piece in pieces if isinstance(piece, ReasoningPiece))
    functions = _called_functions(pieces)
    message = AnsweredMessage(content=content or (None if pieces else ""))
    if functions and message_format.tool_use.is_legacy:
        message.function_call = functions[0]
    elif functions:
        new_id = message_format.new_call_id
        message.tool_calls = [AnsweredToolCall(id=new_id(), function=f) for f in functions]
    if reasoning and message_format.shows_reasoning:
        message.reasoning_content = message.reasoning = reasoning
    return message


def message_delta(piece: Piece, message_format: MessageFormat) -> ChatDelta | None:
    """What a stream tells of a piece; None if the client does not want to see it."""
    match piece:
        case ContentPiece(text):
            return ChatDelta(content=text)
        case ReasoningPiece(text):
            if not message_format.shows_reasoning:
                return None
            return ChatDelta(reasoning_content=text, reasoning=text)
        case CallBegins(index, name):
            function = CalledFunctionDelta(name=name, arguments="")
            return _call_delta(index, function, message_format, message_format.new_call_id)
        case CallArguments(index, text):
            return _call_delta(index, CalledFunctionDelta(arguments=text), message_format, None)


def _called_functions(pieces: Sequence[Piece]) -> list[CalledFunction]:
    functions: list[CalledFunction] = []
    for piece in pieces:
        match piece:
            case CallBegins(_, name):
                functions.append(CalledFunction(name=name, arguments=""))
            case CallArguments(index, text):
                functions[index].arguments += text
            case _:
                pass
    return functions


def _call_delta(
    index: int,
    function: CalledFunctionDelta,
    message_format: MessageFormat,
    new_id: Callable[[], str] | None,
) -> ChatDelta:
    if message_format.tool_use.is_legacy:
        return ChatDelta(function_call=function)
    call = ToolCallDelta(index=index, function=function)
    if new_id is not None:
        call.id, call.type = new_id(), "function"
    return ChatDelta(tool_calls=[call])
