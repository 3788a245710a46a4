"""Every metric of the cluster, in one table: kind, labels, meaning, and where it is measured.

Names, labels and buckets follow vLLM's (`vllm:` becomes `quadriga_`), so that its dashboards need one
replacement. `docs/metrics.md` and the dashboards are held to this table by tests.
"""

from typing import Literal, NamedTuple

LATENCY_BUCKETS = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960,
                   1920, 7680)  # fmt: skip
TTFT_BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5,
                10, 20, 40, 80, 160, 640, 2560)  # fmt: skip
TOKEN_LATENCY_BUCKETS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5,
                         7.5, 10, 20, 40, 80)  # fmt: skip
TOKEN_COUNT_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000,
                       100_000)  # fmt: skip
ITERATION_BUCKETS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384)
GAP_BUCKETS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 120)
COST_BUCKETS = (0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300)


class MetricSpec(NamedTuple):
    """One row: `name` without prefix, and without the `_total` that counters are exposed with."""

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    labels: tuple[str, ...]
    owner: Literal["engine", "frontend", "coordinator", "launcher"]
    help: str
    buckets: tuple[float, ...] = ()


_ENGINE = ("model_name", "engine")

METRICS: tuple[MetricSpec, ...] = (
    # What an engine does, as it counts it itself.
    MetricSpec("gauge", "num_requests_running", _ENGINE, "engine", "Requests in the running batch."),
    MetricSpec("gauge", "num_requests_waiting", _ENGINE, "engine", "Requests waiting in the engine."),
    MetricSpec("gauge", "kv_cache_usage_perc", _ENGINE, "engine",
               "Share of KV blocks that live requests hold, 0 to 1."),
    MetricSpec("counter", "prefix_cache_queries", _ENGINE, "engine",
               "Prompt tokens looked up in the prefix cache."),
    MetricSpec("counter", "prefix_cache_hits", _ENGINE, "engine",
               "Prompt tokens found in the prefix cache."),
    MetricSpec("counter", "num_preemptions", _ENGINE, "engine",
               "Requests put back in the queue because the KV cache was full."),
    MetricSpec("counter", "computed_tokens", _ENGINE, "engine",
               "Tokens that forward passes computed, prompts, outputs and recomputation together."),
    MetricSpec("histogram", "iteration_tokens_total", _ENGINE, "engine",
               "Tokens computed in one step.", ITERATION_BUCKETS),
    MetricSpec("histogram", "request_queue_time_seconds", _ENGINE, "engine",
               "Time from an engine's acceptance of a request to its first computed chunk.",
               LATENCY_BUCKETS),
    MetricSpec("histogram", "request_prefill_time_seconds", _ENGINE, "engine",
               "Time from a request's first computed chunk to its first token.", LATENCY_BUCKETS),
    MetricSpec("histogram", "request_decode_time_seconds", _ENGINE, "engine",
               "Time from a request's first token to its last.", LATENCY_BUCKETS),
    MetricSpec("gauge", "engine_simulated", ("engine",), "engine",
               "1 where the engine makes its tokens up (`--engine simulated`)."),
    # What clients got, as the frontends saw it.
    MetricSpec("counter", "prompt_tokens", _ENGINE, "frontend",
               "Prompt tokens of requests that got their first token."),
    MetricSpec("counter", "generation_tokens", _ENGINE, "frontend",
               "Output tokens delivered to requests; a moved request's tokens count once."),
    MetricSpec("counter", "request_success", (*_ENGINE, "finished_reason"), "frontend",
               "Requests that ended, by reason: stop, length, abort, error."),
    MetricSpec("histogram", "time_to_first_token_seconds", _ENGINE, "frontend",
               "Time from a request's arrival to its first token.", TTFT_BUCKETS),
    MetricSpec("histogram", "inter_token_latency_seconds", _ENGINE, "frontend",
               "Time between two tokens of one request.", TOKEN_LATENCY_BUCKETS),
    MetricSpec("histogram", "request_time_per_output_token_seconds", _ENGINE, "frontend",
               "Mean time per output token after the first, one value a request.",
               TOKEN_LATENCY_BUCKETS),
    MetricSpec("histogram", "e2e_request_latency_seconds", _ENGINE, "frontend",
               "Time from a request's arrival to its end.", LATENCY_BUCKETS),
    MetricSpec("histogram", "request_prompt_tokens", _ENGINE, "frontend",
               "Prompt length of ended requests.", TOKEN_COUNT_BUCKETS),
    MetricSpec("histogram", "request_generation_tokens", _ENGINE, "frontend",
               "Output length of ended requests.", TOKEN_COUNT_BUCKETS),
    MetricSpec("counter", "http_requests", ("method", "handler", "status"), "frontend",
               "HTTP requests answered, by route and status class."),
    # The cluster: failover and routing.
    MetricSpec("gauge", "engine_up", ("engine",), "launcher", "1 while the engine is ready."),
    MetricSpec("gauge", "engine_incarnation", ("engine",), "launcher",
               "How often the engine was started."),
    MetricSpec("counter", "engine_restarts", ("engine", "cause"), "launcher",
               "Restarts of an engine, by what ended it."),
    MetricSpec("gauge", "engine_parked", ("engine",), "launcher",
               "1 while the engine died too often and is tried only now and then."),
    MetricSpec("gauge", "engine_draining", ("engine",), "launcher",
               "1 while the engine is taken out of service, and once it is."),
    MetricSpec("counter", "process_restarts", ("role",), "launcher",
               "Restarts of any process, by its role."),
    MetricSpec("counter", "request_migrations", ("cause",), "frontend",
               "Requests that went on in another engine, by what ended the first."),
    MetricSpec("histogram", "migration_gap_seconds", (), "frontend",
               "Time from a moved request's last token to its next.", GAP_BUCKETS),
    MetricSpec("counter", "requests_not_resumable", (), "frontend",
               "Requests too long to be kept for going on in another engine."),
    MetricSpec("counter", "request_suspicions", (), "frontend",
               "Requests set apart because an engine failed while it computed them."),
    MetricSpec("counter", "request_convictions", (), "frontend",
               "Requests ended because they killed engines."),
    MetricSpec("counter", "routing_decisions", ("engine", "policy"), "frontend",
               "Requests sent to an engine."),
    MetricSpec("histogram", "routing_cost_seconds", (), "frontend",
               "Predicted cost of the chosen engine.", COST_BUCKETS),
    MetricSpec("gauge", "snapshot_age_seconds", ("frontend", "engine"), "frontend",
               "Age of the newest load report that a frontend has of an engine."),
    MetricSpec("gauge", "unacknowledged_dispatches", ("frontend", "engine"), "frontend",
               "Requests sent to an engine that its newest report does not count yet."),
    MetricSpec("counter", "routing_hit_tokens", ("engine",), "frontend",
               "Context tokens of requests that the chosen engine was expected to hold."),
    MetricSpec("gauge", "prefix_index_blocks", ("frontend", "engine"), "frontend",
               "Cached blocks of an engine that a frontend knows of."),
    MetricSpec("counter", "prefix_index_resyncs", ("engine",), "frontend",
               "How often a frontend asked an engine for all its cached blocks, since it had missed some."),
    MetricSpec("gauge", "admission_queue_depth", ("frontend",), "frontend",
               "Requests that a frontend holds because no engine can take them yet."),
    MetricSpec("counter", "admission_rejections", ("reason",), "frontend",
               "Requests refused with 429, 503 or 422, by reason."),
    MetricSpec("gauge", "admission_queue_tokens", ("frontend",), "frontend",
               "Prompt tokens of those requests."),
    MetricSpec("counter", "slow_readers_cut", (), "frontend",
               "Streams ended because their client read nothing."),
    MetricSpec("counter", "wire_bad_frames", ("process",), "frontend",
               "Frames that were no message, dropped."),
    MetricSpec("gauge", "event_loop_lag_seconds", ("frontend",), "frontend",
               "How late a frontend's event loop ran its newest timer."),
)  # fmt: skip
