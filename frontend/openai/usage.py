"""What a generation used, and where it ran."""

from frontend.generation import Generation
from frontend.input_processor import PreparedRequest
from frontend.openai.responses import PromptTokensDetails, QuadrigaExtension, Usage


def count_usage(prepared: PreparedRequest, generation: Generation) -> Usage:
    """The tokens so far; a prompt counts once, however many choices continue it."""
    prompt_tokens = sum(len(prompt.token_ids) for prompt in prepared.prompts)
    completion_tokens = sum(choice.processor.num_output_tokens for choice in generation.choices)
    first_choices = generation.choices[:: prepared.num_choices]
    return Usage(
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        total_tokens=prompt_tokens + completion_tokens,
        prompt_tokens_details=PromptTokensDetails(
            sum(choice.stream.cached_tokens for choice in first_choices)
        ),
    )


def describe_run(generation: Generation) -> QuadrigaExtension:
    """The moves of all choices, and the engines that they ended on."""
    streams = [choice.stream for choice in generation.choices]
    return QuadrigaExtension(
        migrations=sum(stream.num_migrations for stream in streams),
        engines=[stream.engine_rank for stream in streams],
    )
