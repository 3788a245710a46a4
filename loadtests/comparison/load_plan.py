"""The loads under which policies are compared, and what the default policy must show under each."""

from typing import NamedTuple

from loadtests.comparison.conversation import ConversationShape

CANDIDATE = "marginal-cost"
"""The policy that is held to the lines; all others are for comparison."""


class RatioLine(NamedTuple):
    """The candidate's mean TTFT over a baseline's, in the same round of the same run."""

    baseline: str
    most_ratio: float
    allows_noise: bool = False
    """For `no worse than`: what rounds differ by is not held against it."""


class GoodputLine(NamedTuple):
    """What the candidate may lose while the coordinator is away."""

    most_lost: float


class LoadPlan(NamedTuple):
    """One load: what is asked, how fast, of what kind of engines."""

    name: str
    meaning: str
    shape: ConversationShape
    requests_per_second_per_engine: float
    line: RatioLine | GoodputLine
    flags: tuple[str, ...]
    """Of `launch`, beside those of the kind of engine."""
    seconds: float = 25.0
    """How long it lasts, unless the number of requests is given."""
    coordinator_is_away: bool = False
    """Over the second half of the load."""


class EngineKind(NamedTuple):
    """What the engines of a comparison are, and the loads that these and this machine carry."""

    flags: tuple[str, ...]
    engines: int
    frontends: int
    plans: tuple[LoadPlan, ...]


_NO_WORSE = RatioLine("round-robin", 1.0, allows_noise=True)
_TWICE_AS_FAST = RatioLine("vllm", 0.5)
_UNIFORM = "random prompts of equal length"
_PREFIX = (
    "conversations of many turns below shared system prompts: more than one engine's cache holds, "
    "less than all together"
)
_SLOW = "short questions with answers of a few tokens; each step of engine 0 takes 0.4 s longer"
_AWAY = "random prompts of equal length; the coordinator is away half of the time"


# Under more load, policies that even out counts give a slow engine few requests by themselves. Counts
# say little where engines are idle most of the time, and alike by them (decision 0019).
_SLOW_ENGINE = LoadPlan(
    "slow-engine",
    _SLOW,
    ConversationShape(question_tokens=32, answer_tokens=4),
    0.25,
    _TWICE_AS_FAST,
    ("--inject-fault=slow:rank=0:seconds=0.4:times=1000000000",),
)

_SHORT = ConversationShape(question_tokens=256, answer_tokens=32)
_SIMULATED_PLANS = (
    LoadPlan("uniform", _UNIFORM, _SHORT, 6.0, _NO_WORSE, ()),
    LoadPlan(
        "prefix",
        _PREFIX,
        ConversationShape(
            question_tokens=96,
            answer_tokens=32,
            turns=5,
            think_seconds=2.0,
            system_prompts=16,
            system_tokens=1024,
        ),
        1.0,
        _TWICE_AS_FAST,
        ("--kv-cache-memory=256MiB",),
        seconds=30.0,
    ),
    _SLOW_ENGINE._replace(
        requests_per_second_per_engine=0.5,
        flags=(*_SLOW_ENGINE.flags, "--simulated-step-seconds=0.005"),
        seconds=40.0,
    ),
    LoadPlan(
        "coordinator-away",
        _AWAY,
        _SHORT,
        4.0,
        GoodputLine(0.05),
        (),
        seconds=60.0,
        coordinator_is_away=True,
    ),
)

_SHORT_OF_MODEL = ConversationShape(question_tokens=128, answer_tokens=16)
_MODEL_PLANS = (
    LoadPlan("uniform", _UNIFORM, _SHORT_OF_MODEL, 1.0, _NO_WORSE, (), seconds=40.0),
    LoadPlan(
        "prefix",
        _PREFIX,
        ConversationShape(
            question_tokens=32,
            answer_tokens=16,
            turns=4,
            think_seconds=2.0,
            system_prompts=6,
            system_tokens=768,
        ),
        0.75,
        _TWICE_AS_FAST,
        ("--kv-cache-memory=72MiB", "--max-model-len=1024"),
        seconds=90.0,
    ),
    _SLOW_ENGINE._replace(seconds=100.0),
    LoadPlan(
        "coordinator-away",
        _AWAY,
        _SHORT_OF_MODEL,
        0.5,
        GoodputLine(0.05),
        (),
        seconds=60.0,
        coordinator_is_away=True,
    ),
)

SIMULATED = EngineKind(
    flags=(
        "--engine=simulated",
        "--max-model-len=4096",
        "--simulated-step-seconds=0.02",
        "--simulated-prefill-rate=4000",
    ),
    engines=8,
    frontends=4,
    plans=_SIMULATED_PLANS,
)
MODEL = EngineKind(flags=(), engines=2, frontends=2, plans=_MODEL_PLANS)
LOAD_NAMES = tuple(plan.name for plan in SIMULATED.plans)
DEFAULT_LOADS = LOAD_NAMES[:3]
"""Without the coordinator's absence, which a drill covers too."""
