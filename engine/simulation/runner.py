"""A model runner without a model: it takes the time that one would, and makes its tokens up."""

import logging
import time
from functools import partial
from typing import NamedTuple

from cluster.config import ClusterConfig, SimulationConfig
from engine.execution.kv_budget import (
    DEFAULT_BYTES,
    choose_num_blocks,
    fitting_length,
    length_limit,
)
from engine.scheduling.output import RunResult, ScheduledRequest, SchedulerOutput
from engine.simulation.model_folder import read_model_folder
from engine.simulation.token_source import TokenSource
from engine.simulation.vector_source import made_up_vector
from engine.structured.step_masks import GrammarMasks, StepMasks
from engine.structured.vocabulary import load_vocabulary

_KV_VALUE_BYTES = {"auto": 2, "float16": 2, "bfloat16": 2, "float32": 4}

_log = logging.getLogger("engine")


class SimulatedStep(NamedTuple):
    """A step whose end is awaited."""

    results: list[RunResult]
    ends_at: float

    def result(self) -> list[RunResult]:
        """See `StepOutcome`."""
        time.sleep(max(0.0, self.ends_at - time.monotonic()))
        return self.results


class SimulatedModelRunner:
    """Sizes and vocabulary of a real model folder, without its weights.

    Raises ModelError or ConfigError for a folder or a setting that cannot be used.
    """

    def __init__(self, config: ClusterConfig) -> None:
        model = read_model_folder(config.model_directory)
        limit = length_limit(config.model.max_model_len, model.info.max_position_embeddings)
        value_bytes = _KV_VALUE_BYTES[config.engine.kv_cache_dtype]
        # No memory is taken, so none has to be free.
        self.num_blocks = choose_num_blocks(
            config.engine, model.info, limit, value_bytes, DEFAULT_BYTES
        )
        self.max_model_len = fitting_length(config, limit, self.num_blocks)
        self.vocab_size = model.info.vocab_size
        self.model_fingerprint = model.fingerprint
        self._vector_size = model.info.hidden_size
        self._pace = config.simulation
        self._grammars = GrammarMasks(
            partial(
                load_vocabulary, config.model_directory, self.vocab_size, model.info.eos_token_ids
            )
        )
        self._tokens = TokenSource(model.info.vocab_size, model.word_ids)
        self._is_busy_until = 0.0
        self.overlaps_steps = bool(config.engine.async_scheduling)
        _log.warning("this engine is simulated: its tokens and vectors are made up")

    def submit(self, work: SchedulerOutput) -> "SimulatedStep":
        """Answer for each run; it will be known when a model of this pace is done with it."""
        begins_at = max(time.monotonic(), self._is_busy_until)
        self._is_busy_until = begins_at + step_seconds(self._pace, work)
        masks = self._grammars.begin(work.scheduled)
        return SimulatedStep(
            [self._answer(run, masks) for run in work.scheduled], self._is_busy_until
        )

    def _answer(self, run: ScheduledRequest, masks: StepMasks) -> RunResult:
        if run.request.sampling.pooling is not None:
            vector = made_up_vector(run.request, self._vector_size) if run.reaches_end else None
            return RunResult(vector=vector)
        first = run.first_position + 1
        try:
            prompt_logprobs = self._tokens.prompt_logprobs(
                run.request, first, first + run.num_tokens
            )
            if not run.samples:
                return RunResult(prompt_logprobs=prompt_logprobs)
            token_id, logprobs = self._tokens.next_token(run, masks.of(run.request))
        except ValueError as error:
            return RunResult(error=f"sampling failed: {error}")
        return RunResult(token_id, logprobs, prompt_logprobs)


def step_seconds(pace: SimulationConfig, work: SchedulerOutput) -> float:
    """How long this step takes."""
    shape = work.shape
    return (
        pace.simulated_step_seconds
        + pace.simulated_request_seconds * shape.decodes
        + pace.simulated_kv_token_seconds * shape.kv_tokens
        + shape.prefill_tokens / pace.simulated_prefill_rate
    )
