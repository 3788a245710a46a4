"""What the server counts itself, read from its `/metrics` before and after a run."""

from collections import Counter
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from loadtests.http_client import BrokenConnection, HttpClient

PREFIXES = ("quadriga_", "vllm:")
"""vLLM counts under the same names, so the two can be compared."""


class ServerCounters(NamedTuple):
    """Counters since the server's start; the difference of two is what a run added."""

    tokens_of_engine: Counter[str]
    migrations_of_cause: Counter[str]
    restarts_of_engine: Counter[str]

    def since(self, earlier: "ServerCounters") -> "ServerCounters | None":
        """What was added after `earlier`; an engine that counted nothing since is there with 0.

        None if a counter has fallen: this is another server than before.
        """
        if any(then - now for now, then in zip(self, earlier, strict=True)):
            return None
        return ServerCounters(
            *(_difference(now, then) for now, then in zip(self, earlier, strict=True))
        )


def _difference(now: Counter[str], then: Counter[str]) -> Counter[str]:
    return Counter({label: count - then[label] for label, count in now.items()})


def parse_counters(text: str) -> ServerCounters:
    """The counters in an exposition in the Prometheus text format.

    Raises ValueError if the text is not one.
    """
    counters = ServerCounters(Counter(), Counter(), Counter())
    wanted = {
        "generation_tokens": (counters.tokens_of_engine, "engine"),
        "request_migrations": (counters.migrations_of_cause, "cause"),
        "engine_restarts": (counters.restarts_of_engine, "engine"),
    }
    for family in text_string_to_metric_families(text):
        name = next(
            (family.name.removeprefix(p) for p in PREFIXES if family.name.startswith(p)), ""
        )
        if name not in wanted:
            continue
        counter, label = wanted[name]
        for sample in family.samples:
            if sample.name.endswith("_total"):
                counter[sample.labels.get(label, "")] += int(sample.value)
    return counters


async def read_counters(http: HttpClient) -> ServerCounters | None:
    """The server's counters now; None if it has no `/metrics` that can be read."""
    try:
        status, body = await http.get("/metrics")
        return parse_counters(body.decode()) if status == 200 else None
    except (BrokenConnection, ValueError):
        return None
