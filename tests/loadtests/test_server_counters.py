from loadtests.server_counters import parse_counters

BEFORE = """\
# TYPE quadriga_generation_tokens_total counter
quadriga_generation_tokens_total{engine="0",model_name="m"} 5.0
quadriga_generation_tokens_total{engine="1",model_name="m"} 3.0
# TYPE quadriga_request_generation_tokens histogram
quadriga_request_generation_tokens_bucket{engine="0",le="1.0"} 9.0
quadriga_request_generation_tokens_bucket{engine="0",le="+Inf"} 9.0
quadriga_request_generation_tokens_count{engine="0"} 9.0
quadriga_request_generation_tokens_sum{engine="0"} 90.0
"""
AFTER = """\
# TYPE quadriga_generation_tokens_total counter
quadriga_generation_tokens_total{engine="0",model_name="m"} 15.0
quadriga_generation_tokens_total{engine="1",model_name="m"} 3.0
quadriga_generation_tokens_total{engine="2",model_name="m"} 4.0
# TYPE quadriga_request_migrations_total counter
quadriga_request_migrations_total{cause="SIGKILL"} 2.0
# TYPE quadriga_engine_restarts_total counter
quadriga_engine_restarts_total{cause="SIGKILL",engine="0"} 1.0
quadriga_engine_restarts_total{cause="SIGSEGV",engine="0"} 1.0
"""


def test_a_run_is_what_was_added_between_two_readings() -> None:
    added = parse_counters(AFTER).since(parse_counters(BEFORE))
    assert added is not None
    assert added.tokens_of_engine == {"0": 10, "1": 0, "2": 4}
    assert added.migrations_of_cause == {"SIGKILL": 2}
    assert added.restarts_of_engine == {"0": 2}


def test_a_server_that_was_started_again_has_added_nothing_that_is_known() -> None:
    assert parse_counters(BEFORE).since(parse_counters(AFTER)) is None


def test_vllm_names_are_understood() -> None:
    counters = parse_counters(BEFORE.replace("quadriga_", "vllm:"))
    assert counters.tokens_of_engine == {"0": 5, "1": 3}


def test_other_expositions_count_nothing() -> None:
    assert not any(parse_counters("# TYPE up gauge\nup 1\n"))
