"""A token's way through a frontend, taken apart: each stage alone, over the objects that do it.

`python -m loadtests.frontend_lab.stages CONFIG REPEATS [--no-http]` reads the configuration of a cluster and prints
the costs as JSON: in a process of its own, since it writes metrics as a frontend does, into files.
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path

import msgspec

from cluster.config import ClusterConfig, load_config
from cluster.telemetry.metrics import join_metrics
from cluster.wire.codec import Decoder, Encoder
from cluster.wire.messages import (
    EngineCoreOutput,
    EngineCoreOutputs,
    EnginePhase,
    EngineToFrontend,
    LoadReport,
)
from cluster.wire.sampling import SamplingParams
from frontend.__main__ import loop_factory
from frontend.courier import Courier
from frontend.generation import Choice, Generation, IndexedDelta
from frontend.in_flight import InFlight
from frontend.input_processor import Arrival, InputProcessor, PreparedRequest
from frontend.metrics import FrontendMetrics
from frontend.model_info import load_model_info
from frontend.openai.answer import Answer
from frontend.openai.chat_answer import ChatAnswer
from frontend.openai.completion_answer import CompletionAnswer
from frontend.openai.schemas import ChatBody, CompletionBody
from frontend.output_processor import OutputOptions, OutputProcessor
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream, TokenBatch
from frontend.tokenizer import Tokenizer, load_tokenizer
from loadtests.frontend_lab.fed_engine import idle_engine_book
from loadtests.frontend_lab.http_stages import measure_application, measure_sending
from loadtests.frontend_lab.measurement import PROMPT, body_of
from loadtests.frontend_lab.stage_cost import StageCost
from loadtests.frontend_lab.timing import microseconds_per_token

TOKENS = 2048
STREAMS = 32
"""That get a token from the same step of the same engine."""
NO_HTTP = "--no-http"


class Stages:
    """What lies between ZeroMQ and hypercorn."""

    def __init__(self, config: ClusterConfig, repeats: int) -> None:
        self._repeats = repeats
        self._tokenizer = load_tokenizer(config)
        model = load_model_info(config)
        self._metrics = FrontendMetrics(model.name, 0)
        self._inputs = InputProcessor(config, model, self._tokenizer)
        self.token_ids = spoken_tokens(self._tokenizer)

    def measure(self) -> Iterator[StageCost]:
        """Each stage, in the order in which a token comes to them."""
        yield self._cost("decode a message of 32 requests' tokens", self._decoding())
        yield self._cost("take in: stream, books, latency metrics", self._taking_in)
        yield self._cost("hand it over to whoever waits for it", self._handing_over)
        yield self._cost("text, and the count of what is told", self._text)
        arrival = Arrival(0.0)
        chat = msgspec.json.decode(body_of("chat", 256), type=ChatBody)
        plain = msgspec.json.decode(body_of("completions", 256), type=CompletionBody)
        prepared_chat = self._inputs.prepare_chat(chat, arrival, None)
        prepared = self._inputs.prepare_completion(plain, arrival, None)
        of_completion = CompletionAnswer(plain, prepared, self._tokenizer)
        of_chat = ChatAnswer(chat, prepared_chat, self._tokenizer, prepared_chat.message_format)
        yield self._cost("event, completions", self._events(of_completion, prepared))
        yield self._cost("event, chat", self._events(of_chat, prepared_chat))

    def _cost(self, stage: str, work: Callable[[], object]) -> StageCost:
        return StageCost(stage, microseconds_per_token(work, TOKENS, self._repeats))

    def _decoding(self) -> Callable[[], None]:
        load = LoadReport(
            0, 1, 1, EnginePhase.READY, step=1000, running=STREAMS, acknowledged=[(0, 1, 9)]
        )
        outputs = [
            EngineCoreOutput(f"cmpl-{index:032x}-0", 0, 100, [self.token_ids[index]])
            for index in range(STREAMS)
        ]
        frames = Encoder().encode(EngineCoreOutputs(0, 1, outputs, load))
        decoder: Decoder[EngineToFrontend] = Decoder(EngineToFrontend)

        def work() -> None:
            for _ in range(TOKENS // STREAMS):
                decoder.decode(frames)

        return work

    def _outputs(self, tokens: int) -> list[EngineCoreOutput]:
        token_ids = islice(cycle(self.token_ids), tokens)
        return [EngineCoreOutput("r", 0, index, [token]) for index, token in enumerate(token_ids)]

    def _taking_in(self) -> None:
        book, in_flight = idle_engine_book(), InFlight(new_stream())
        in_flight.assign(book)
        for output in self._outputs(TOKENS):
            in_flight.take(output, 0.0, self._metrics)
            book.begin("r")

    def _handing_over(self) -> None:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(self._hand_over())

    async def _hand_over(self) -> None:
        courier = Courier(self._metrics.counted_together)
        streams = [new_stream(courier) for _ in range(STREAMS)]
        readers = [asyncio.create_task(read(stream, TOKENS // STREAMS)) for stream in streams]
        for output in self._outputs(TOKENS // STREAMS):
            await asyncio.sleep(0)
            for stream in streams:
                stream.put(output)
        await asyncio.gather(*readers)

    def _text(self) -> None:
        stream = new_stream()
        in_flight = InFlight(stream)
        stream = RequestStream(
            stream.request, lambda _: None,
            on_told=lambda told: in_flight.measure_told(told, 0.0, self._metrics),
        )  # fmt: skip
        processor = OutputProcessor(self._tokenizer, [], OutputOptions())
        token_ids = cycle(self.token_ids)
        for _ in range(TOKENS // STREAMS):
            with self._metrics.counted_together():
                for token_id in islice(token_ids, STREAMS):
                    batch = TokenBatch([token_id], {0: 1})
                    stream.tell(batch, len(processor.process(batch).token_ids))

    def _events(self, answer: Answer, prepared: PreparedRequest) -> Callable[[], None]:
        processor = OutputProcessor(self._tokenizer, [], prepared.options)
        generation = Generation([Choice(new_stream(), processor)])
        news = [
            IndexedDelta(0, processor.process(TokenBatch([token_id])))
            for token_id in islice(cycle(self.token_ids), TOKENS)
        ]

        def work() -> None:
            for each in news:
                for chunk in answer.chunks(generation, each):
                    if not isinstance(chunk, bytes):
                        answer.events.event(chunk)

        return work


def spoken_tokens(tokenizer: Tokenizer) -> list[int]:
    """Tokens of an answer: words, as simulated engines say them."""
    return tokenizer.encode(PROMPT * 10, add_special_tokens=False)


def new_stream(courier: Courier | None = None) -> RequestStream:
    """The stream of a request that nobody has sent."""
    request = GenerationRequest("r", [1], [], SamplingParams(max_tokens=TOKENS), 0.0)
    on_news = None if courier is None else courier.call
    return RequestStream(request, lambda _: None, on_news=on_news)


class CountingConsumer:
    """Takes so many tokens, and makes nothing of them."""

    def __init__(self, tokens: int) -> None:
        self.tokens_left = tokens

    def take(self, batch: TokenBatch) -> None:
        """Count."""
        self.tokens_left -= len(batch.token_ids)

    def send(self) -> bool:
        """Let the task wake up when all are here."""
        return self.tokens_left > 0


async def read(stream: RequestStream, tokens: int) -> None:
    """Take so many tokens out, as an answer does that would say that it lives every few seconds."""
    consumer = CountingConsumer(tokens)
    while consumer.tokens_left:
        batch = await stream.next(5.0, consumer)
        assert batch is not None, "nothing is late here"
        consumer.take(batch)
    stream.end()


async def measure_http(
    config: ClusterConfig, token_ids: list[int], repeats: int
) -> list[StageCost]:
    """What needs sockets."""
    sending = await measure_sending(config, repeats)
    return sending + await measure_application(config, token_ids, repeats)


def main() -> None:
    """Measure in a folder for metrics that is gone in the end."""
    config, repeats = load_config(Path(sys.argv[1])), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        join_metrics(folder, "frontend-0")
        stages = Stages(config, repeats)
        costs = list(stages.measure())
        if NO_HTTP not in sys.argv:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                costs += runner.run(measure_http(config, stages.token_ids, repeats))
    print(msgspec.json.encode(costs).decode())


if __name__ == "__main__":
    main()
