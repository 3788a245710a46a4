from collections.abc import Sequence

from loadtests.comparison.comparison import Comparison
from loadtests.comparison.load_plan import SIMULATED
from loadtests.comparison.summary import summarize
from loadtests.comparison.text import comparison_markdown, comparison_text, trial_text
from loadtests.comparison.trial import Trial
from loadtests.comparison.verdict import judge
from tests.loadtests.comparison.made_up import trial

PREFIX = next(plan for plan in SIMULATED.plans if plan.name == "prefix")


def comparison(trials: Sequence[Trial]) -> Comparison:
    policies = dict.fromkeys(each.policy for each in trials)
    return Comparison(
        engines=8,
        frontends=4,
        seed=0,
        rounds=1,
        summaries=[summarize([t for t in trials if t.policy == policy]) for policy in policies],
        verdicts=[judge(PREFIX, trials)],
        trials=list(trials),
    )


FAST = trial("marginal-cost", 0.1, load="prefix")
SLOW = trial("vllm", 0.4, load="prefix")


def test_a_page_says_what_was_measured_and_what_was_to_be() -> None:
    text = comparison_text(comparison([FAST, SLOW]), [PREFIX])
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line}
    assert rows["marginal-cost"][1] == "100"
    assert rows["marginal-cost"][-1] == "0.25"
    assert rows["vllm"][-1] == "1.00"
    assert "✓ prefix: mean TTFT of marginal-cost over that of vllm: at most 0.5" in text


def test_a_line_that_is_not_kept_is_marked() -> None:
    text = comparison_text(comparison([SLOW, trial("marginal-cost", 0.4, load="prefix")]), [PREFIX])
    assert "✗ prefix" in text


def test_a_spread_is_shown_where_rounds_differ() -> None:
    text = comparison_text(comparison([FAST, trial("marginal-cost", 0.2, load="prefix")]), [PREFIX])
    assert "150 (100–200)" in text
    assert "– prefix" in text


def test_the_markdown_has_rows_as_wide_as_their_headings() -> None:
    page = comparison_markdown(comparison([FAST, SLOW]), [PREFIX], "two cores")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert len({row.count("|") for row in rows}) == 1
    assert page.startswith("Measured on two cores")


def test_a_failed_request_is_named_as_soon_as_its_trial_is_over() -> None:
    assert "1 × HTTP 500" in trial_text(trial("vllm", 0.1, errors=1))


def test_an_engine_that_was_restarted_is_named_too() -> None:
    assert "restarted" not in trial_text(FAST)
    assert "engine 1 was restarted" in trial_text(trial("vllm", 0.1, restarts=1))


def test_a_comparison_passes_if_no_line_no_request_and_no_engine_failed() -> None:
    assert comparison([FAST, SLOW]).passed
    assert comparison([FAST]).passed
    assert not comparison([SLOW, trial("marginal-cost", 0.4, load="prefix")]).passed
    assert not comparison([FAST, trial("vllm", 0.4, load="prefix", errors=1)]).passed
    assert not comparison([FAST, trial("vllm", 0.4, load="prefix", restarts=1)]).passed
