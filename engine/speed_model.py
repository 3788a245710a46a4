"""How fast this engine computes, learnt from its own steps."""

from dataclasses import dataclass
from math import exp

from engine.decode_fit import DecodeFit
from engine.scheduling.output import StepShape

FIT_SECONDS = 10.0
"""The fit remembers about so much of the time spent in steps."""
SLOWDOWN_SECONDS = 1.0
"""The slowdown looks back no further than this: one late step is chance, a second of them is news."""
WARM_UP_STEPS = 8
"""The first steps of each kind find everything cold, and are forgotten once there are others."""
CLIP_FACTOR = 4.0
"""Once there is a fit, a step counts as this many times its prediction at most: one that was
stopped from outside must not move the fit much, while a lasting change still gets through."""
LEAST_PREFILL_SHARE = 0.1
"""Share of a mixed step's time that goes to its prompt tokens at least, whatever the decode fit
would take: their speed must not become infinite."""
UNMEASURED_PREFILL_TOKENS_PER_SECOND = 20.0
UNMEASURED_DECODE_SECONDS = 1.0
"""For predictions before anything was measured: slow enough that no honest step looks hung."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """Measured speeds; 0 where nothing was measured yet.

    A step is taken to last prefill tokens / `prefill_tokens_per_second` and, if anybody decodes,
    `decode_seconds_per_step` + decodes · `decode_seconds_per_request` + their context tokens ·
    `decode_seconds_per_kv_token`.
    """

    prefill_tokens_per_second: float = 0.0
    decode_seconds_per_step: float = 0.0
    decode_seconds_per_request: float = 0.0
    decode_seconds_per_kv_token: float = 0.0
    slowdown: float = 1.0
    """Time of the last few steps over what the fit expected of them."""


class SpeedModel:
    """Fits the speeds to observed steps, O(1) a step.

    Steps without prompts give the decode terms (`DecodeFit`). In all other steps, what the decodes
    do not explain is the prompts' time.
    """

    def __init__(self) -> None:
        self._decode = DecodeFit()
        self._prefill_tokens = 0.0
        self._prefill_seconds = 0.0
        self._num_prefill_steps = 0
        self._slowdown = 1.0

    @property
    def speeds(self) -> Speeds:
        """The newest fit."""
        rate = self._prefill_tokens / self._prefill_seconds if self._prefill_seconds else 0.0
        return Speeds(rate, *self._decode.coefficients, self._slowdown)

    def observe(self, shape: StepShape, seconds: float) -> None:
        """Learn from a step of this shape that took so long."""
        if seconds <= 0.0 or not (shape.prefill_tokens or shape.decodes):
            return
        if self._is_settled(shape):
            expected = self._expected_seconds(shape)
            ratio = min(seconds / expected, 100.0) if expected > 0.0 else 1.0
            self._slowdown += (1.0 - exp(-seconds / SLOWDOWN_SECONDS)) * (ratio - self._slowdown)
            seconds = min(seconds, CLIP_FACTOR * expected) if expected > 0.0 else seconds
        if shape.prefill_tokens:
            self._observe_prefill(shape, seconds)
        else:
            is_warm_now = self._decode.num_steps == WARM_UP_STEPS
            decay = 0.0 if is_warm_now else exp(-seconds / FIT_SECONDS)
            self._decode.observe(shape.decodes, shape.kv_tokens, seconds, decay)

    def predict_seconds(self, shape: StepShape) -> float:
        """How long such a step may take at the speed of the last few; far too long if unmeasured."""
        return self._expected_seconds(shape) * max(1.0, self._slowdown)

    def _observe_prefill(self, shape: StepShape, seconds: float) -> None:
        rest = seconds - self._decode.seconds(shape.decodes, shape.kv_tokens)
        decay = exp(-seconds / FIT_SECONDS)
        if self._num_prefill_steps == WARM_UP_STEPS:
            self._prefill_tokens = self._prefill_seconds = 0.0
        self._num_prefill_steps += 1
        self._prefill_tokens = decay * self._prefill_tokens + shape.prefill_tokens
        self._prefill_seconds = decay * self._prefill_seconds + max(
            rest, LEAST_PREFILL_SHARE * seconds
        )

    def _is_settled(self, shape: StepShape) -> bool:
        """Whether the terms that this step consists of are known well enough to doubt the step."""
        prefill_is_known = self._num_prefill_steps >= WARM_UP_STEPS
        decode_is_known = self._decode.num_steps >= WARM_UP_STEPS
        return (prefill_is_known or not shape.prefill_tokens) and (
            decode_is_known or not shape.decodes
        )

    def _expected_seconds(self, shape: StepShape) -> float:
        rate = self.speeds.prefill_tokens_per_second or UNMEASURED_PREFILL_TOKENS_PER_SECOND
        seconds = shape.prefill_tokens / rate
        if shape.decodes and not self._decode.num_steps:
            return seconds + UNMEASURED_DECODE_SECONDS
        return seconds + self._decode.seconds(shape.decodes, shape.kv_tokens)
