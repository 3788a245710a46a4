"""The model runner: a step's work in, sampled tokens out. The only door to everything with a tensor."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

import torch

from cluster.config import ClusterConfig
from cluster.errors import ModelError
from cluster.wire.messages import TokenLogprobs
from engine.execution.containment import is_device_failure
from engine.execution.cuda.decode_graphs import record_decode_graphs
from engine.execution.cuda.device_sampler import DeviceDraw, DeviceSampler
from engine.execution.cuda.staging import to_device
from engine.execution.drawn_tokens import NOTHING_DRAWN, DrawnTokens
from engine.execution.input_batch import InputBatch
from engine.execution.logprobs import token_logprobs
from engine.execution.paged_attention import PagedStep
from engine.execution.pooler import Pooler, pooled_result
from engine.execution.sampler import HostDraw, HostSampler, SampledToken
from engine.execution.serving_model import prepare_model
from engine.execution.step_queue import DeviceQueue, LaunchedStep, ThreadQueue
from engine.execution.trial_run import trial_run
from engine.scheduling.output import (
    RunResult,
    ScheduledRequest,
    SchedulerOutput,
    StepOutcome,
    join_logprobs,
)
from engine.structured.step_masks import GrammarMasks, StepMasks
from engine.structured.vocabulary import load_vocabulary

_logger = logging.getLogger(__name__)

_HEAD_ROWS = 64
"""Rows of logits that exist at once: 64 of a large vocabulary are 40 MB."""
_WARM_UP_TOKENS = 16


class ModelRunner:
    """One model on one device with its KV cache: computes what the scheduler decides.

    Raises ModelError or ConfigError for a folder or a setting that cannot be used. `progress` is told
    the share that is done, 0 to 1.

    A step is launched: its forward pass and its draws are given to the device, which leaves the drawn
    tokens where the next step finds them. What is left of it is done when its results are asked for.
    """

    def __init__(
        self, config: ClusterConfig, progress: Callable[[float], None] = lambda _: None
    ) -> None:
        self._model = prepare_model(config, progress)
        self.num_blocks = self._model.storage.num_blocks
        self.max_model_len = self._model.max_model_len
        self.model_fingerprint = self._model.fingerprint
        self.vocab_size = self._model.info.vocab_size
        self._grammars = GrammarMasks(
            partial(
                load_vocabulary, config.model_directory, self.vocab_size,
                self._model.info.eos_token_ids,
            )
        )  # fmt: skip
        self._grammars.warm_up()
        self._pooler = Pooler()
        is_on_cpu = self._model.device.type == "cpu"
        asked = config.engine.async_scheduling
        self.overlaps_steps = not is_on_cpu if asked is None else asked
        self._queue = ThreadQueue() if is_on_cpu and self.overlaps_steps else DeviceQueue()
        self._sampler = HostSampler() if is_on_cpu else DeviceSampler()
        self._drawn = NOTHING_DRAWN
        self._warm_up()
        self._decode_graphs = record_decode_graphs(self._model, config.engine.max_num_seqs)
        progress(1.0)

    def submit(self, work: SchedulerOutput) -> StepOutcome:
        """See `engine.scheduling.output.ModelRunner`."""
        masks = self._grammars.begin(work.scheduled)
        return self._queue.submit(partial(self._launch, work.scheduled, masks))

    def execute(self, work: SchedulerOutput) -> list[RunResult]:
        """Compute one step, and wait for it."""
        return self.submit(work).result()

    @torch.inference_mode()
    def _launch(self, runs: Sequence[ScheduledRequest], masks: StepMasks) -> LaunchedStep:
        hidden, last_rows = self._hidden_states(runs)
        draws = self._draw(runs, last_rows, hidden, masks)
        results, first_row = [], 0
        for run in runs:
            rows = hidden[first_row : first_row + run.num_tokens]
            if run.request.sampling.pooling is not None:
                results.append(pooled_result(self._pooler, run, rows))
            else:
                results.append(self._prompt_result(run, rows))
            first_row += run.num_tokens
        return LaunchedStep(partial(_with_tokens, results, runs, draws), self._model.device)

    def _hidden_states(
        self, runs: Sequence[ScheduledRequest]
    ) -> tuple[torch.Tensor, Sequence[int]]:
        """Of every token of the step, and which of its rows are the runs' last."""
        if self._decode_graphs is not None and self._decode_graphs.accept(runs):
            return self._decode_graphs.hidden_states(runs, self._drawn), range(len(runs))
        model = self._model
        batch = InputBatch.build(runs, model.storage.block_size, model.device)
        self._drawn.fill_in(batch.token_ids, batch.missing)
        step = PagedStep(batch, model.storage, model.attention)
        return model.lm.hidden_states(step), batch.last_rows

    def _prompt_result(self, run: ScheduledRequest, rows: torch.Tensor) -> RunResult:
        """What came of one run but for its token; what goes wrong with it is its own error."""
        try:
            prompt_logprobs = self._prompt_logprobs(run, rows)
        except Exception as error:
            if is_device_failure(error):
                raise
            _logger.exception("%s gets no prompt logprobs", run.request.request_id)
            return RunResult(error=f"prompt_logprobs failed: {error}")
        return RunResult(prompt_logprobs=prompt_logprobs)

    def _draw(
        self,
        runs: Sequence[ScheduledRequest],
        last_rows: Sequence[int],
        hidden: torch.Tensor,
        masks: StepMasks,
    ) -> list[HostDraw | DeviceDraw]:
        """Draw the tokens of all runs that sample, and keep them for the next step."""
        wanted = [(row, run) for row, run in zip(last_rows, runs, strict=True) if run.samples]
        draws: list[HostDraw | DeviceDraw] = []
        for start in range(0, len(wanted), _HEAD_ROWS):
            rows, some = zip(*wanted[start : start + _HEAD_ROWS], strict=True)
            last = hidden[to_device(torch.tensor(rows), hidden.device)]
            draws.append(self._sampler.draw(self._model.lm.logits(last), some, masks))
        if draws:
            token_ids = torch.cat([draw.token_ids for draw in draws])
            self._drawn = DrawnTokens([run.request for _, run in wanted], token_ids)
        return draws

    def _prompt_logprobs(self, run: ScheduledRequest, hidden: torch.Tensor) -> TokenLogprobs | None:
        """Of the prompt tokens after each position of the run, if its request wants them."""
        request, num_best = run.request, run.request.sampling.prompt_logprobs
        if num_best is None or request.prompt_logprobs_sent:
            return None
        first = run.first_position + 1
        targets = request.token_ids[first : min(first + run.num_tokens, request.num_prompt_tokens)]
        parts = [
            token_logprobs(self._model.lm.logits(hidden[start : start + len(some)]), some, num_best)
            for start in range(0, len(targets), _HEAD_ROWS)
            for some in [targets[start : start + _HEAD_ROWS]]
        ]
        return join_logprobs(parts) if parts else None

    @torch.inference_mode()
    def _warm_up(self) -> None:
        """Compute a few tokens, so that the first request waits for nothing, and look at the result.

        Raises ModelError if the model does not come by our attention in every layer.
        """
        model = self._model
        num_tokens = min(_WARM_UP_TOKENS, self.max_model_len - 1)
        run = trial_run(num_tokens, model.storage.block_size)
        batch = InputBatch.build([run], model.storage.block_size, model.device)
        step = PagedStep(batch, model.storage, model.attention)
        logits = model.lm.logits(model.lm.hidden_states(step)[-1:])
        if step.layers_seen != set(range(model.info.num_layers)):
            raise ModelError(
                "some layers of the model do not use transformers' attention interface"
            )
        if not logits.isfinite().all():
            raise ModelError(
                "the model computes numbers that are not finite: are its weights whole?"
            )


def _with_tokens(
    results: list[RunResult],
    runs: Sequence[ScheduledRequest],
    draws: Sequence[HostDraw | DeviceDraw],
) -> list[RunResult]:
    """The results of all runs, with the tokens of those that sample."""
    tokens = chain.from_iterable(draw.tokens() for draw in draws)
    return [
        _with_token(result, next(tokens)) if run.samples else result
        for result, run in zip(results, runs, strict=True)
    ]


def _with_token(result: RunResult, token: SampledToken) -> RunResult:
    if result.error:
        return result
    return RunResult(token.token_id, token.logprobs, result.prompt_logprobs, token.error)
