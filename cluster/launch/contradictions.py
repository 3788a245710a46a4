"""Settings that are each right and together wrong, found before anything is started."""

from collections.abc import Callable

from cluster.config import ClusterConfig, parse_bytes
from cluster.errors import ConfigError
from cluster.fault_plan import parse_fault


def check_contradictions(config: ClusterConfig) -> None:
    """Raises ConfigError, naming the flags and the limit, for the first that is found."""
    for check in _CHECKS:
        complaint = check(config)
        if complaint is not None:
            raise ConfigError(complaint)


def _step_holds_every_request(config: ClusterConfig) -> str | None:
    engine = config.engine
    if engine.max_num_batched_tokens >= engine.max_num_seqs:
        return None
    return (
        f"--max-num-batched-tokens {engine.max_num_batched_tokens} must be at least --max-num-seqs "
        f"{engine.max_num_seqs}, so that a step can give every running request a token"
    )


def _model_length_holds_a_block(config: ClusterConfig) -> str | None:
    length, block = config.model.max_model_len, config.engine.block_size
    if length is None or length >= block:
        return None
    return f"--max-model-len {length} must be at least --block-size {block}"


def _kv_cache_memory_is_a_size(config: ClusterConfig) -> str | None:
    text = config.engine.kv_cache_memory
    if text is None:
        return None
    try:
        parse_bytes(text)
    except (ValueError, OverflowError):
        return f"--kv-cache-memory must be a size above 0 such as 512MiB or 4GiB, not {text!r}"
    return None


def _devices_are_enough_and_distinct(config: ClusterConfig) -> str | None:
    engine = config.engine
    if engine.devices is None:
        return None
    if engine.device == "cpu":
        return "--devices names GPUs, and --device cpu uses none"
    devices = [device.strip() for device in engine.devices.split(",")]
    if not all(devices):
        return f"--devices must be GPU indexes or UUIDs separated by commas, not {engine.devices!r}"
    if len(set(devices)) < len(devices):
        return f"--devices {engine.devices} names a GPU twice: each engine needs one of its own"
    if len(devices) < engine.data_parallel_size:
        return (
            f"--dp {engine.data_parallel_size} needs as many GPUs, and --devices names "
            f"{len(devices)}"
        )
    return None


def _silence_is_suspect_before_it_is_death(config: ClusterConfig) -> str | None:
    health = config.coordinator
    if not health.publish_interval < health.suspect_after:
        return (
            f"--suspect-after {health.suspect_after:g} must be above --publish-interval "
            f"{health.publish_interval:g}"
        )
    if not health.suspect_after < health.hang_timeout:
        return (
            f"--hang-timeout {health.hang_timeout:g} must be above --suspect-after "
            f"{health.suspect_after:g}"
        )
    return None


def _keys_are_not_empty(config: ClusterConfig) -> str | None:
    if all(key.strip() for key in config.frontend.api_key):
        return None
    return "--api-key must not be empty: leave it out to serve without keys"


def _admin_keys_are_not_empty(config: ClusterConfig) -> str | None:
    if all(key.strip() for key in config.frontend.admin_key):
        return None
    return "--admin-key must not be empty: leave it out to keep operation over HTTP closed"


def _credentials_are_for_named_pages(config: ClusterConfig) -> str | None:
    if not config.frontend.allow_credentials or "*" not in config.frontend.allowed_origins:
        return None
    return (
        "--allow-credentials needs --allowed-origins with the pages that may send them: browsers "
        "refuse it for *"
    )


def _faults_are_well_formed(config: ClusterConfig) -> str | None:
    try:
        for spec in config.engine.inject_fault:
            parse_fault(spec)
    except ConfigError as error:
        return str(error)
    return None


_CHECKS: tuple[Callable[[ClusterConfig], str | None], ...] = (
    _step_holds_every_request,
    _model_length_holds_a_block,
    _kv_cache_memory_is_a_size,
    _devices_are_enough_and_distinct,
    _silence_is_suspect_before_it_is_death,
    _keys_are_not_empty,
    _admin_keys_are_not_empty,
    _credentials_are_for_named_pages,
    _faults_are_well_formed,
)
