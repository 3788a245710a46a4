"""A prompt's hidden states to one vector, over as many steps as the prompt takes."""

import logging
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch

from cluster.wire.messages import Blob
from cluster.wire.sampling import Pooling, PoolingParams
from engine.execution.containment import is_device_failure
from engine.request import Request
from engine.scheduling.output import RunResult, ScheduledRequest

_logger = logging.getLogger(__name__)

_LEAST_LENGTH = 1e-12
"""A vector of zeros is not divided by its length."""


class _Sum(NamedTuple):
    num_tokens: int
    states: torch.Tensor
    """(hidden,) float64: however the prompt is cut into chunks, its vector is the same float32."""


class Pooler:
    """Keeps what a half computed prompt needs of the steps before. Owned by the busy loop.

    What is kept goes with its request, and begins anew where the request's tokens do: after a preemption,
    or on another engine.
    """

    def __init__(self) -> None:
        self._sums: WeakKeyDictionary[Request, _Sum] = WeakKeyDictionary()

    def take(self, run: ScheduledRequest, hidden: torch.Tensor) -> Blob | None:
        """Add a run's last hidden states, (tokens, hidden); the vector, once the prompt is through.

        Raises ValueError if the vector has numbers that are not finite.
        """
        params = run.request.sampling.pooling
        assert params is not None, f"{run.request.request_id} does not pool"
        match params.pooling:
            case Pooling.MEAN:
                total = self._add(run, hidden)
                return _vector(total / run.request.num_tokens, params) if run.reaches_end else None
            case Pooling.LAST:
                return _vector(hidden[-1].double(), params) if run.reaches_end else None

    def _add(self, run: ScheduledRequest, hidden: torch.Tensor) -> torch.Tensor:
        states = hidden.sum(dim=0, dtype=torch.float64)
        if run.first_position:
            before = self._sums[run.request]
            assert before.num_tokens == run.first_position, (
                f"{run.request.request_id} goes on at {run.first_position}, not {before.num_tokens}"
            )
            states += before.states
        self._sums[run.request] = _Sum(run.end, states)
        return states


def pooled_result(pooler: Pooler, run: ScheduledRequest, hidden: torch.Tensor) -> RunResult:
    """What came of a run that pools; what goes wrong is its own error, unless it is the device's."""
    try:
        return RunResult(vector=pooler.take(run, hidden))
    except Exception as error:
        if is_device_failure(error):
            raise
        _logger.exception("%s cannot be pooled", run.request.request_id)
        return RunResult(error=f"pooling failed: {error}")


def _vector(states: torch.Tensor, params: PoolingParams) -> Blob:
    if params.normalize:
        states = states / states.norm().clamp_min(_LEAST_LENGTH)
    vector = states.float()
    if not vector.isfinite().all():
        raise ValueError("the model's hidden states are not finite numbers")
    return Blob(vector.cpu().numpy().tobytes())
