"""The reader of PromQL finds what does not exist."""

import pytest

from tests.architecture.promql import unknown_parts


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("sum(rate(quadriga_no_such_total[5m]))", "quadriga_no_such_total does not exist"),
        ("quadriga_generation_tokens", "quadriga_generation_tokens does not exist"),
        ('quadriga_engine_up{rank="0"}', "quadriga_engine_up has no label rank"),
        ("sum by (cause) (quadriga_engine_up)", "quadriga_engine_up has no label cause"),
        ("quadriga_engine_up or quadriga_down", "quadriga_down does not exist"),
    ],
)
def test_a_metric_or_label_that_does_not_exist_is_found(expression: str, problem: str) -> None:
    assert unknown_parts(expression) == [problem]


@pytest.mark.parametrize(
    "expression",
    [
        'sum by (engine) (rate(quadriga_generation_tokens_total{job=~"$job"}[$__rate_interval]))',
        "histogram_quantile(0.99, sum by (le) (rate(quadriga_migration_gap_seconds_bucket[5m])))",
        "quadriga_iteration_tokens_total_sum / quadriga_iteration_tokens_total_count",
        'up{job="quadriga"} == 0',
    ],
)
def test_what_is_exposed_is_let_pass(expression: str) -> None:
    assert unknown_parts(expression) == []


def test_what_is_no_promql_is_refused() -> None:
    with pytest.raises(ValueError, match="unclosed left parenthesis"):
        unknown_parts("sum(rate(")
