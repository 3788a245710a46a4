"""What must be true of a cluster that has nothing to do: nothing is left of what it did.

Pure: snapshots go in, checks come out.
"""

from collections.abc import Mapping

import msgspec

from loadtests.drills.history import History
from loadtests.drills.processes import ProcessResources
from loadtests.drills.verdict import Check

MOST_MORE_FILES = 24
"""An engine's link takes some file descriptors in each of its peers, and engines come anew."""


class ProcessState(msgspec.Struct, frozen=True):
    """A process, and what it holds."""

    name: str
    pid: int
    restarts: int
    """Those that nobody had asked for."""
    resources: ProcessResources


class ClusterState(msgspec.Struct, frozen=True):
    """The whole cluster at a moment."""

    processes: tuple[ProcessState, ...]
    running: int
    waiting: int
    used_blocks: int
    queued: int
    """Requests that frontends hold, by their metric."""
    counters: Mapping[str, float]
    """Counters that the history is compared with."""


COUNTERS = {
    "ended": ("quadriga_request_success_total", {}),
    "stop": ("quadriga_request_success_total", {"finished_reason": "stop"}),
    "length": ("quadriga_request_success_total", {"finished_reason": "length"}),
    "tokens": ("quadriga_generation_tokens_total", {}),
    "migrations": ("quadriga_request_migrations_total", {}),
    "engine restarts": ("quadriga_engine_restarts_total", {}),
}  # fmt: skip
"""What is asked of /metrics, under a short name."""


def is_idle(state: ClusterState) -> bool:
    """Whether nothing is under way anywhere."""
    return not (state.running or state.waiting or state.used_blocks or state.queued) and not any(
        process.resources.tcp_connections for process in state.processes
    )


def check_idle(first: ClusterState, last: ClusterState) -> Check:
    """I4: after quiet everything is back to what it was when the cluster was new."""
    found = [
        f"{value} {what}"
        for what, value in (
            ("requests running", last.running),
            ("requests waiting in engines", last.waiting),
            ("KV blocks in use", last.used_blocks),
            ("requests held by frontends", last.queued),
        )
        if value
    ]
    before = {process.pid: process for process in first.processes}
    for process in last.processes:
        connections = process.resources.tcp_connections
        if connections:
            found.append(f"{connections} open connections of {process.name}")
        old = before.get(process.pid)
        if old and process.resources.open_files > old.resources.open_files + MOST_MORE_FILES:
            found.append(
                f"{process.name} has {process.resources.open_files} open files, "
                f"{old.resources.open_files} at the start"
            )
    return Check("I4 back to idle everywhere", not found, "; ".join(found))


def check_metrics(
    history: History, first: ClusterState, last: ClusterState, is_exact: bool
) -> Check:
    """I6: the metrics agree with the history.

    Where clients left early or a frontend was killed, what was counted is at least what was seen.
    """
    seen = count_history(history)
    seen["engine restarts"] = sum(
        process.restarts for process in last.processes if process.name.startswith("engine")
    )
    found = []
    for name, right in seen.items():
        since = 0.0 if name == "engine restarts" else first.counters[name]
        counted = last.counters[name] - since
        is_right = counted == right if is_exact else counted >= right
        if not is_right:
            found.append(f"{name}: {counted:g} counted, {right:g} seen")
    return Check("I6 metrics agree with the history", not found, "; ".join(found))


def count_history(history: History) -> dict[str, float]:
    """What the counters should say of the whole answers of a history."""
    whole = [exchange for exchange in history.exchanges if exchange.is_whole]
    reasons = [reason for e in whole for c in e.choices.values() for reason in c.finish_reasons]
    return {
        "stop": reasons.count("stop"),
        "length": reasons.count("length"),
        "tokens": sum(exchange.num_tokens for exchange in history.exchanges),
        "migrations": sum(exchange.migrations for exchange in whole),
    }


def check_leftovers(
    survivors: list[int], sockets: list[str], records: list[str], live: list[int]
) -> Check:
    """I7: no process, socket file or flight record of somebody who is dead.

    `sockets` and `records` are files whose owners have ended.
    """
    found = [f"process {pid}" for pid in survivors if pid not in live]
    found += [f"socket {name}" for name in sockets]
    found += [f"flight record {name}" for name in records]
    return Check("I7 nothing left of the dead", not found, ", ".join(found))
