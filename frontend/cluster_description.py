"""The cluster in words, for `GET /cluster` and for people."""

from cluster.wire.messages import EngineEntry, EngineState, FrontendEntry, LoadReport
from frontend.cluster_view import LiveView


def describe_engines(view: LiveView, now: float) -> list[dict[str, object]]:
    """Every engine that is known, as the coordinator sees it and as this frontend does."""
    entries = {entry.rank: entry for entry in view.cluster.engines} if view.cluster else {}
    return [
        {
            "rank": rank,
            **(_describe_entry(entries[rank]) if rank in entries else {}),
            **_describe_book(view, rank, now),
        }
        for rank in sorted(entries.keys() | view.books.keys())
    ]


def describe_frontends(view: LiveView) -> list[dict[str, object]]:
    """Every frontend that the coordinator knows."""
    return [_describe_frontend(entry) for entry in view.cluster.frontends] if view.cluster else []


def describe_deaths(view: LiveView, now: float) -> list[dict[str, object]]:
    """The engines that have ended in the last seconds, as the coordinator tells."""
    if view.cluster is None:
        return []
    return [
        {
            "rank": death.rank,
            "incarnation": death.incarnation,
            "cause": death.cause,
            "fault": death.fault,
            "age_seconds": round(death.age_seconds + view.view_age_seconds(now), 3),
        }
        for death in view.cluster.deaths
    ]


def _describe_entry(entry: EngineEntry) -> dict[str, object]:
    return {
        "incarnation": entry.incarnation,
        "state": entry.state.name.lower(),
        "cause": entry.cause,
        "restarts": entry.restarts,
        "parked": entry.parked,
        "draining": entry.state is EngineState.DRAINING,
        "pid": entry.pid,
        "load": _describe_load(entry.report) if entry.report is not None else None,
    }


def _describe_load(report: LoadReport) -> dict[str, object]:
    return {
        "phase": report.phase.name.lower(),
        "step": report.step,
        "waiting": report.waiting,
        "running": report.running,
        "waiting_prompt_tokens": report.waiting_prompt_tokens,
        "running_tokens": report.running_tokens,
        "total_blocks": report.total_blocks,
        "used_blocks": report.used_blocks,
        "cached_blocks": report.cached_blocks,
        "prefill_tokens_per_second": round(report.prefill_tokens_per_second, 1),
        "decode_seconds_per_step": report.decode_seconds_per_step,
        "decode_seconds_per_request": report.decode_seconds_per_request,
        "decode_seconds_per_kv_token": report.decode_seconds_per_kv_token,
        "slowdown": round(report.slowdown, 3),
    }


def _describe_book(view: LiveView, rank: int, now: float) -> dict[str, object]:
    """What this frontend knows itself: whether it would choose the engine, and what it sent."""
    book = view.books.get(rank)
    if book is None:
        return {"chosen_here": False}
    return {
        "chosen_here": view.may_choose(book, now),
        "report_age_seconds": round(now - book.heard_at, 3),
        "requests_from_here": book.in_flight,
        "unacknowledged": book.unacknowledged,
        "max_model_len": book.hello.max_model_len,
        "max_num_seqs": book.hello.max_num_seqs,
        "block_size": book.hello.block_size,
        "num_blocks": book.hello.num_blocks,
        "model_fingerprint": book.hello.model_fingerprint,
    }


def _describe_frontend(entry: FrontendEntry) -> dict[str, object]:
    return {
        "index": entry.index,
        "incarnation": entry.incarnation,
        "alive": entry.alive,
        "draining": entry.draining,
        "in_flight": entry.in_flight,
        "queued": entry.queued,
        "restarts": entry.restarts,
        "pid": entry.pid,
    }
