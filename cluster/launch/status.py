"""What `cluster status` is told, as JSON: also the content of `state.json`."""

from typing import Literal

import msgspec

from cluster.launch.operation_book import OperationOutcome

ClusterPhase = Literal["starting", "ready", "degraded", "draining"]


class ProcessStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """One process."""

    role: str
    index: int
    name: str
    incarnation: int
    pid: int
    state: str
    restarts: int
    uptime_seconds: float
    command: list[str]
    environment: dict[str, str]
    log: str
    last_exit: str = ""
    progress: float = 0.0
    waiting: int | None = None
    running: int | None = None
    kv_cache_usage: float | None = None
    """Share of an engine's KV blocks that requests hold, 0 to 1."""


class ClusterStatus(msgspec.Struct, frozen=True):
    """One cluster."""

    id: str
    url: str
    pid: int
    state: ClusterPhase
    uptime_seconds: float
    model: str
    run_directory: str
    processes: list[ProcessStatus]
    operation: str = ""
    """What is under way, such as a drain, in words; empty where nothing is."""
    last_operation: OperationOutcome | None = None
    """How the last one ended."""
