"""What the Responses API has and this server has not: refused, never ignored."""

from cluster.errors import InvalidRequest
from frontend.responses_api.schemas import ResponsesBody

LOGPROBS = "message.output_text.logprobs"
INCLUDABLE = (
    LOGPROBS,
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
)
"""All but the first ask for parts of items that never occur here: reasoning is told in the clear."""

_NOTHING_STORED = "responses are not stored; send the earlier items in input"
_REASONS = {
    "background": "responses are made while the client waits",
    "previous_response_id": _NOTHING_STORED,
    "conversation": _NOTHING_STORED,
    "prompt": "prompts are not stored; send instructions and input",
    "context_management": "input is never compacted",
    "moderation": "there is no moderation",
    "messages": "in the Responses API it is called input",
    "max_tokens": "in the Responses API it is called max_output_tokens",
    "max_completion_tokens": "in the Responses API it is called max_output_tokens",
    "response_format": "in the Responses API it is called text.format",
    "reasoning_effort": "in the Responses API it is called reasoning.effort",
    "functions": "in the Responses API they are called tools",
}


def refuse_unsupported(body: ResponsesBody) -> None:
    """Raises InvalidRequest naming the first field that asks for something not supported."""
    for name, reason in _REASONS.items():
        if getattr(body, name):
            raise InvalidRequest(f"{name} is not supported: {reason}", name)
    if body.truncation == "auto":
        raise InvalidRequest(
            "truncation must be disabled, not auto: input is never shortened", "truncation"
        )
    if body.text is not None and body.text.verbosity not in (None, "medium"):
        raise InvalidRequest(
            f"text.verbosity must be medium, not {body.text.verbosity!r}", "text.verbosity"
        )
    for index, name in enumerate(body.include or []):
        if name not in INCLUDABLE:
            raise InvalidRequest(
                f"include[{index}] must be one of {', '.join(INCLUDABLE)}, not {name!r}",
                f"include[{index}]",
            )
