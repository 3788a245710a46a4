import pytest

from cluster.launch.cli import build_parser
from loadtests.comparison.conversation import make_conversations
from loadtests.comparison.load_plan import MODEL, SIMULATED, EngineKind

BLOCK_TOKENS = 16
BYTES_OF_A_TOKEN = 2 * 30 * 3 * 64 * 2
"""Of the embedded model's KV cache: layers, KV heads, sizes of a head, keys and values in float16."""
KINDS = pytest.mark.parametrize("kind", [SIMULATED, MODEL], ids=["simulated", "model"])


@KINDS
def test_launch_knows_every_flag(kind: EngineKind) -> None:
    for plan in kind.plans:
        build_parser().parse_args([*kind.flags, *plan.flags])


@KINDS
def test_both_kinds_of_engine_have_the_same_loads(kind: EngineKind) -> None:
    assert [plan.name for plan in kind.plans] == [plan.name for plan in SIMULATED.plans]


@KINDS
def test_the_prefixes_fill_more_than_one_cache_and_less_than_all(kind: EngineKind) -> None:
    """Else there would be nothing to choose, or nothing to gain."""
    plan = next(plan for plan in kind.plans if plan.name == "prefix")
    size = next(flag for flag in plan.flags if flag.startswith("--kv-cache-memory="))
    mebibytes = int(size.partition("=")[2].removesuffix("MiB"))
    cache_tokens = mebibytes * 2**20 // BYTES_OF_A_TOKEN
    rate = plan.requests_per_second_per_engine * kind.engines / plan.shape.turns
    at_once = rate * plan.shape.turns * plan.shape.think_seconds
    own = plan.shape.longest_tokens - plan.shape.system_tokens
    working_set = plan.shape.system_prompts * plan.shape.system_tokens + at_once * own
    assert cache_tokens < working_set < kind.engines * cache_tokens
    assert cache_tokens > plan.shape.longest_tokens
    assert make_conversations(plan.shape, 2, rate, seed=0)
