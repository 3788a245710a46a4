"""The `run` command: a workload, its arrivals, a server, and the report."""

from pathlib import Path
from typing import NamedTuple

from loadtests.arrivals import poisson_arrivals
from loadtests.client import StreamingClient
from loadtests.driver import Driver
from loadtests.http_client import HttpClient
from loadtests.progress_line import progress_line
from loadtests.report import Report, make_report
from loadtests.server_counters import read_counters
from loadtests.workload import Ask, chat_questions, prompts_from_file, random_token_prompts


class RunOptions(NamedTuple):
    """What `python -m loadtests run` was asked for."""

    url: str
    api_key: str | None
    model: str | None
    requests: int
    concurrency: int
    rate_per_second: float | None
    input_tokens: int
    output_tokens: int
    prefix_share: float
    vocabulary_size: int
    prompts: Path | None
    chat: bool
    seed: int
    timeout_seconds: float


async def run(options: RunOptions) -> Report:
    """Send the requests and report what their clients saw.

    Raises BrokenConnection if the server is not there, WorkloadError for a bad prompts file.
    """
    http = HttpClient(options.url, options.api_key)
    client = StreamingClient(http, options.timeout_seconds)
    model = options.model or await client.first_model()
    driver = Driver(client.complete, make_asks(model, options))
    before = await read_counters(http)
    async with progress_line(driver.progress):
        if options.rate_per_second is None:
            await driver.closed_loop(options.concurrency)
        else:
            arrivals = poisson_arrivals(options.rate_per_second, options.requests, options.seed)
            await driver.open_loop(arrivals)
    after = await read_counters(http)
    return make_report(
        driver.progress.records,
        url=options.url,
        model=model,
        load=_load_in_words(options),
        counted=after.since(before) if after is not None and before is not None else None,
    )


def make_asks(model: str, options: RunOptions) -> list[Ask]:
    """The requests that the options ask for."""
    if options.prompts is not None:
        return prompts_from_file(
            model,
            options.requests,
            options.prompts,
            as_chat=options.chat,
            output_tokens=options.output_tokens,
        )
    if options.chat:
        return chat_questions(
            model, options.requests, output_tokens=options.output_tokens, seed=options.seed
        )
    return random_token_prompts(
        model,
        options.requests,
        input_tokens=options.input_tokens,
        output_tokens=options.output_tokens,
        prefix_share=options.prefix_share,
        vocabulary_size=options.vocabulary_size,
        seed=options.seed,
    )


def _load_in_words(options: RunOptions) -> str:
    if options.rate_per_second is None:
        return f"{options.concurrency} at once"
    return f"{options.rate_per_second:g} a second (Poisson)"
