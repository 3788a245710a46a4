"""Settings that contradict each other are refused by name."""

from typing import Any

import pytest

from cluster.errors import ConfigError
from cluster.launch.config_sources import resolve_config
from cluster.launch.contradictions import check_contradictions


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"max_num_batched_tokens": 8}, "--max-num-batched-tokens 8 must be at least --max-num-seqs 64"),
        ({"max_model_len": 16, "block_size": 32}, "--max-model-len 16 must be at least --block-size 32"),
        ({"kv_cache_memory": "plenty"}, "--kv-cache-memory must be a size"),
        ({"kv_cache_memory": "0"}, "--kv-cache-memory must be a size"),
        ({"kv_cache_memory": "1e999GiB"}, "--kv-cache-memory must be a size"),
        ({"device": "cpu", "devices": "0"}, "--device cpu uses none"),
        ({"devices": "0,,1"}, "--devices must be GPU indexes"),
        ({"devices": "0,0"}, "names a GPU twice"),
        ({"devices": "0", "data_parallel_size": 2}, "--dp 2 needs as many GPUs, and --devices names 1"),
        ({"hang_timeout": 0.5}, "--hang-timeout 0.5 must be above --suspect-after 1"),
        ({"publish_interval": 1.5}, "--suspect-after 1 must be above --publish-interval 1.5"),
        ({"api_key": ["good", " "]}, "--api-key must not be empty"),
        ({"admin_key": [""]}, "--admin-key must not be empty"),
        ({"allow_credentials": True}, "--allow-credentials needs --allowed-origins"),
        ({"inject_fault": ["segfault", "explode:rank=0"]}, "--inject-fault explode:rank=0: 'explode'"),
    ],
)  # fmt: skip
def test_a_contradiction_is_refused(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        check_contradictions(resolve_config(values))


def test_the_defaults_do_not_contradict_each_other() -> None:
    check_contradictions(resolve_config())
    check_contradictions(
        resolve_config({"allow_credentials": True, "allowed_origins": ["https://page.example"]})
    )
    check_contradictions(resolve_config({"kv_cache_memory": "512MiB", "devices": "0, 1"}))
