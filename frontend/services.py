"""What the routes share: one of each in a frontend."""

from dataclasses import dataclass
from typing import cast

from starlette.requests import Request

from cluster.config import ClusterConfig
from frontend.engine_client import EngineClient
from frontend.input_processor import InputProcessor
from frontend.model_info import ModelInfo
from frontend.tokenizer import Tokenizer
from frontend.worker_threads import WorkerThreads


@dataclass(frozen=True, slots=True)
class Services:
    """The parts that answer requests."""

    config: ClusterConfig
    model: ModelInfo
    tokenizer: Tokenizer
    client: EngineClient
    inputs: InputProcessor
    tokenizing: WorkerThreads
    scraping: WorkerThreads
    """Its own thread: a scrape reads files and must not wait for tokenization, nor delay it."""


def services_of(request: Request) -> Services:
    """The services of the application that the request came to."""
    return cast("Services", request.app.state.services)
