"""`cluster decisions`: what people see of a frontend's choices, and when there is nothing to see."""

import random
import socket
from pathlib import Path

import msgspec
import pytest

from cluster.config import FrontendConfig
from cluster.errors import ControlError
from cluster.launch.exit_codes import ExitCode
from cluster.operate import decisions
from cluster.operate.decision_table import Decisions, render_decisions
from cluster.wire.messages import EnginePhase, LoadReport
from frontend.balancer import Balancer
from frontend.engine_book import Charge, EngineLoad
from frontend.routing.decisions import Decision, DecisionLog
from frontend.routing.view import RoutedRequest, RoutingView
from tests.cluster.operate.test_cli import cluster_command
from tests.support.small_launcher import SmallLauncher


def busy(rank: int, running: int, **fields: float) -> EngineLoad:
    report = LoadReport(rank, 1, 1, EnginePhase.READY, running=running, **fields)  # type: ignore[arg-type]
    return EngineLoad(rank, report, 0.02, Charge(), Charge(), capacity_tokens=10_000)


def shown(policy: str, *loads: EngineLoad) -> list[str]:
    """The table of one choice among these engines, as a frontend would have told it."""
    view, request = RoutingView(loads, 2), RoutedRequest(1000, {loads[0].rank: 640})
    choice = Balancer(policy, random.Random(0)).choose(view, request)
    assert choice is not None
    log = DecisionLog()
    log.add(Decision(1.0, "cmpl-7", policy, view, request, choice))
    told = msgspec.json.encode({"answered_by": {"frontend": 3}, "decisions": log.explain(3.5)})
    return render_decisions(msgspec.json.decode(told, type=Decisions)).splitlines()


def test_a_choice_is_shown_with_what_it_costs_at_each_engine() -> None:
    head, _, request, headings, chosen, other = shown("marginal-cost", busy(0, 1), busy(1, 9))
    assert head.startswith("the last choices of frontend 3, the newest first")
    assert request == "2.5 s ago, marginal-cost: cmpl-7, 1000 tokens, to engine 0"
    columns = headings.split()
    first = dict(zip(columns, chosen.removeprefix(">").split()[:-1], strict=False))
    second = dict(zip(columns, other.split()[:-1], strict=False))
    assert chosen.startswith(">")
    assert not other.startswith(">")
    assert (first["HIT"], second["HIT"]) == ("640", "0")
    assert (first["RUNNING"], second["RUNNING"]) == ("1", "9")
    assert float(first["COST"]) < float(second["COST"])
    parts = [float(first[name]) for name in ("PREFILL", "DECODE", "CACHE")]
    assert sum(parts) == pytest.approx(float(first["COST"]), abs=2e-4)
    assert chosen.endswith("20 ms")


def test_an_engine_that_is_slower_says_so() -> None:
    *_, slow = shown("marginal-cost", busy(0, 1), busy(1, 1, slowdown=4.0))
    assert "momentary 4.0 times slower" in slow


def test_policies_without_terms_show_what_they_compare() -> None:
    *_, first, second = shown("vllm", busy(0, 2), busy(1, 5))
    assert first.split()[:3] == [">", "0", "2.0000"]
    assert second.split()[:4] == ["1", "5.0000", "-", "-"]


def test_a_frontend_that_has_chosen_nothing_says_so() -> None:
    assert render_decisions(Decisions([], {"frontend": 1})) == (
        "frontend 1 has not chosen an engine yet"
    )


@pytest.mark.parametrize("number", ["0", "257", "few"])
def test_a_wrong_number_is_exit_code_2(number: str) -> None:
    result = cluster_command(Path("/tmp/q/quadriga"), "decisions", "-n", number)
    assert result.returncode == ExitCode.BAD_SETTING
    assert "from 1 to 256" in result.stderr


def test_without_an_admin_key_the_command_says_what_is_missing() -> None:
    with SmallLauncher() as cluster:
        cluster.wait_until_up()
        result = cluster_command(cluster.root, "decisions")
        assert result.returncode == ExitCode.FAILED
        assert "launched without --admin-key" in result.stderr


def test_a_frontend_that_does_not_answer_is_one_line() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(ControlError, match="does not answer"):
            decisions._get(url, "/cluster/decisions", FrontendConfig(admin_key=["key"]))
