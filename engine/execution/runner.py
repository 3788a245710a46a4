"""The model runner: a step's work in, sampled tokens out. The only door to everything with a tensor."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

import torch

from cluster.config import ClusterConfig
from cluster.errors import ModelError
from cluster.wire.messages import TokenLogprobs
from engine.execution.containment import is_device_failure
from engine.execution.cuda.decode_graphs import record_decode_graphs
from engine.execution.input_batch import InputBatch
from engine.execution.logprobs import token_logprobs
from engine.execution.paged_attention import PagedStep
from engine.execution.pooler import Pooler, pooled_result
from engine.execution.sampler import SampledToken, sample
from engine.execution.serving_model import prepare_model
from engine.execution.trial_run import trial_run
from engine.scheduling.output import (
    RunResult,
    ScheduledRequest,
    SchedulerOutput,
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
        self._warm_up()
        self._decode_graphs = record_decode_graphs(self._model, config.engine.max_num_seqs)
        progress(1.0)

    @torch.inference_mode()
    def execute(self, work: SchedulerOutput) -> list[RunResult]:
        """Compute, and sample or pool; one result per scheduled request, in order.

        Raises only what ends the engine: a device error, out of memory.
        """
        runs = work.scheduled
        masks = self._grammars.begin(runs)
        hidden, last_rows = self._hidden_states(runs)
        sampled = iter(self._sample(runs, last_rows, hidden, masks))
        results, first_row = [], 0
        for run in runs:
            rows = hidden[first_row : first_row + run.num_tokens]
            if run.request.sampling.pooling is not None:
                results.append(pooled_result(self._pooler, run, rows))
            else:
                token = next(sampled) if run.samples else SampledToken()
                results.append(self._result(run, token, rows))
            first_row += run.num_tokens
        return results

    def _hidden_states(
        self, runs: Sequence[ScheduledRequest]
    ) -> tuple[torch.Tensor, Sequence[int]]:
        """Of every token of the step, and which of its rows are the runs' last."""
        if self._decode_graphs is not None and self._decode_graphs.accept(runs):
            return self._decode_graphs.hidden_states(runs), range(len(runs))
        model = self._model
        batch = InputBatch.build(runs, model.storage.block_size, model.device)
        step = PagedStep(batch, model.storage, model.attention)
        return model.lm.hidden_states(step), batch.last_rows

    def _result(self, run: ScheduledRequest, token: SampledToken, rows: torch.Tensor) -> RunResult:
        """What came of one run; what goes wrong with its prompt's logprobs is its own error."""
        try:
            prompt_logprobs = self._prompt_logprobs(run, rows)
        except Exception as error:
            if is_device_failure(error):
                raise
            _logger.exception("%s gets no prompt logprobs", run.request.request_id)
            return RunResult(error=f"prompt_logprobs failed: {error}")
        return RunResult(token.token_id, token.logprobs, prompt_logprobs, token.error)

    def _sample(
        self,
        runs: Sequence[ScheduledRequest],
        last_rows: Sequence[int],
        hidden: torch.Tensor,
        masks: StepMasks,
    ) -> list[SampledToken]:
        wanted = [
            (row, run.request) for row, run in zip(last_rows, runs, strict=True) if run.samples
        ]
        tokens: list[SampledToken] = []
        for start in range(0, len(wanted), _HEAD_ROWS):
            rows, requests = zip(*wanted[start : start + _HEAD_ROWS], strict=True)
            tokens += sample(self._model.lm.logits(hidden[list(rows)]), requests, masks)
        return tokens

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
