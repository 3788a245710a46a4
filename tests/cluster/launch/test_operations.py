"""Drain, restart, scale: on a launcher with the real coordinator and small rooms."""

import json
import os
import signal
import time
from typing import Any

import msgspec
import pytest

from cluster.errors import ControlError, OperationConflict
from cluster.launch.control_client import ask
from cluster.launch.exit_codes import ExitCode
from cluster.launch.operation_book import OperationOutcome, Ticket
from cluster.telemetry.flight_recorder import FlightRecorder, flight_record_path
from cluster.telemetry.metrics import render_metrics
from cluster.wire.messages import FlightRecord
from tests.support.processes import is_running
from tests.support.small_launcher import SmallLauncher
from tests.support.waiting import wait_until


def begin(cluster: SmallLauncher, verb: str, **arguments: Any) -> Ticket:
    return msgspec.json.decode(ask(cluster.run_directory, verb, json.dumps(arguments)), type=Ticket)


def end(cluster: SmallLauncher, ticket: Ticket) -> OperationOutcome:
    def look() -> OperationOutcome | None:
        last = cluster.status().last_operation
        return last if last is not None and last.number == ticket.number else None

    found = wait_until(look, 20)
    assert found is not None
    return found


def carry_out(cluster: SmallLauncher, verb: str, **arguments: Any) -> OperationOutcome:
    return end(cluster, begin(cluster, verb, **arguments))


def done(cluster: SmallLauncher, verb: str, **arguments: Any) -> None:
    outcome = carry_out(cluster, verb, **arguments)
    assert (outcome.outcome, outcome.detail) == ("done", "")


def ready(cluster: SmallLauncher) -> None:
    cluster.wait_until_up()
    wait_until(lambda: cluster.status().state == "ready")


def states(cluster: SmallLauncher) -> dict[str, str]:
    return {f"{p.name}.{p.incarnation}": p.state for p in cluster.status().processes}


def metrics(cluster: SmallLauncher) -> str:
    return render_metrics(cluster.run_directory / "metrics").decode()


def test_an_idle_engine_is_drained_at_once_and_stays_out_of_service() -> None:
    with SmallLauncher("--engines", "idle,idle") as cluster:
        ready(cluster)
        pid = cluster.child("engine 1").pid
        done(cluster, "drain", engine=1)
        assert not is_running(pid)
        drained = cluster.child("engine 1")
        assert (drained.state, drained.last_exit, drained.restarts) == ("drained", "drained", 0)
        assert cluster.status().state == "degraded"
        assert 'quadriga_engine_draining{engine="1"} 1.0' in metrics(cluster)
        done(cluster, "drain", engine=1)
        with pytest.raises(OperationConflict, match="no other engine serves"):
            begin(cluster, "drain", engine=0)
        done(cluster, "drain", engine=0, force=True)
        done(cluster, "restart", engine=1)
        done(cluster, "restart", engine=0)
        wait_until(lambda: cluster.status().state == "ready")
        assert {p.restarts for p in cluster.status().processes} == {0}
        assert "engine_restarts_total{" not in metrics(cluster)
        assert 'quadriga_engine_draining{engine="1"} 0.0' in metrics(cluster)


def test_an_engine_with_work_gets_until_the_deadline() -> None:
    with SmallLauncher("--engines", "serve,idle") as cluster:
        ready(cluster)
        ticket = begin(cluster, "drain", engine=0, deadline=1.0)
        cluster.wait_for_state("engine 0", "draining")
        assert cluster.status().operation == "drain engine 0: engine 0 finishes its requests"
        began_at = time.monotonic()
        assert end(cluster, ticket).outcome == "done"
        assert time.monotonic() - began_at > 0.5


def test_while_one_operation_runs_the_same_joins_it_and_others_are_refused() -> None:
    with SmallLauncher("--engines", "serve,idle") as cluster:
        ready(cluster)
        ticket = begin(cluster, "drain", engine=0)
        again = begin(cluster, "drain", engine=0)
        assert (again.number, again.is_new) == (ticket.number, False)
        for verb, arguments in (("drain", {"engine": 1}), ("scale", {"engines": 3})):
            with pytest.raises(OperationConflict, match="drain engine 0: engine 0 finishes"):
                begin(cluster, verb, **arguments)


def test_an_engine_that_dies_in_its_drain_has_ended() -> None:
    with SmallLauncher("--engines", "serve,idle") as cluster:
        ready(cluster)
        ticket = begin(cluster, "drain", engine=0)
        cluster.wait_for_state("engine 0", "draining")
        os.kill(cluster.child("engine 0").pid, signal.SIGKILL)
        assert end(cluster, ticket).outcome == "done"
        engine = cluster.child("engine 0")
        assert (engine.state, engine.incarnation, engine.last_exit) == ("drained", 1, "SIGKILL")


def test_a_stop_cancels_what_is_under_way() -> None:
    with SmallLauncher("--engines", "serve,idle") as cluster:
        ready(cluster)
        begin(cluster, "drain", engine=0)
        cluster.wait_for_state("engine 0", "draining")
        cluster.signal(signal.SIGTERM)
        assert cluster.exit_code() == ExitCode.OK
        assert "drain engine 0: cancelled" in cluster.stderr()
        assert cluster.has_left_nothing()


def test_an_engine_whose_restart_is_cancelled_serves_until_the_end() -> None:
    flags = ("--engines", "serve,idle", "--frontends", "stubborn", "--shutdown-timeout", "20")
    with SmallLauncher(*flags) as cluster:
        ready(cluster)
        begin(cluster, "restart", engine=0)
        cluster.wait_for_state("engine 0", "draining")
        cluster.signal(signal.SIGTERM)
        cluster.wait_for_state("engine 0", "ready")
        cluster.signal(signal.SIGTERM)


def test_frontends_and_the_coordinator_are_restarted_in_good_order() -> None:
    with SmallLauncher("--engines", "idle") as cluster:
        ready(cluster)
        done(cluster, "restart", frontend=0)
        assert cluster.child("frontend 0").last_exit == "retired"
        done(cluster, "restart", coordinator=True)
        wait_until(lambda: cluster.status().state == "ready")
        assert states(cluster) == {
            "coordinator.2": "ready",
            "engine 0.1": "ready",
            "frontend 0.2": "ready",
        }


def test_a_rolling_restart_renews_everything_but_what_was_drained() -> None:
    with SmallLauncher("--engines", "idle,idle,idle", "--frontends", "serve,serve") as cluster:
        ready(cluster)
        done(cluster, "drain", engine=1)
        done(cluster, "restart", rolling=True)
        wait_until(lambda: states(cluster)["engine 0.2"] == "ready")
        assert states(cluster) == {
            "coordinator.2": "ready",
            "engine 0.2": "ready",
            "engine 1.1": "drained",
            "engine 2.2": "ready",
            "frontend 0.2": "ready",
            "frontend 1.2": "ready",
        }


def test_a_restart_that_fails_stops_the_rolling_and_leaves_the_rest_alone() -> None:
    flags = ("--engines", "fail-later,idle", "--impatient", "--max-restarts", "0")
    with SmallLauncher(*flags, "--shutdown-timeout", "0.1") as cluster:
        ready(cluster)
        outcome = carry_out(cluster, "restart", rolling=True)
        assert outcome.outcome == "failed"
        assert "engine 0 was not ready" in outcome.detail
        assert "parked, after exit code 3" in outcome.detail
        assert states(cluster)["engine 1.1"] == "ready"
        assert 'quadriga_engine_parked{engine="0"} 1.0' in metrics(cluster)


def test_no_engine_is_restarted_while_its_peer_may_still_come() -> None:
    flags = ("--engines", "idle,load-forever", "--startup-timeout", "3")
    with SmallLauncher(*flags) as cluster:
        cluster.wait_until_up()
        cluster.wait_for_state("engine 1", "loading")
        outcome = carry_out(cluster, "restart", rolling=True)
        assert outcome.outcome == "failed"
        assert outcome.detail.startswith("engine 0 was not restarted: no other engine was ready")
        assert states(cluster)["engine 0.1"] == "ready"


def test_scaling_adds_places_and_takes_the_highest_away() -> None:
    with SmallLauncher("--engines", "idle", "--frontends", "serve") as cluster:
        ready(cluster)
        done(cluster, "scale", engines=3, frontends=2)
        wait_until(lambda: cluster.status().state == "ready")
        assert [*states(cluster)] == [
            "coordinator.1", "engine 0.1", "engine 1.1", "engine 2.1", "frontend 0.1", "frontend 1.1",
        ]  # fmt: skip
        config = json.loads((cluster.run_directory / "cluster.json").read_text())
        assert config["engine"]["data_parallel_size"] == 3
        assert config["frontend"]["frontends"] == 2
        done(cluster, "scale", engines=3)
        wait_until(lambda: 'quadriga_engine_up{engine="2"} 1.0' in metrics(cluster))
        done(cluster, "scale", engines=1, frontends=1)
        assert [*states(cluster)] == ["coordinator.1", "engine 0.1", "frontend 0.1"]
        config = json.loads((cluster.run_directory / "cluster.json").read_text())
        assert config["engine"]["data_parallel_size"] == 1
        assert 'quadriga_engine_up{engine="0"} 1.0' in metrics(cluster)
        assert 'engine="2"' not in metrics(cluster)
        done(cluster, "scale", engines=2)
        assert states(cluster)["engine 1.2"] == "ready"  # a place goes on counting


def test_a_size_that_cannot_be_is_refused_before_anything_happens() -> None:
    with SmallLauncher("--engines", "idle") as cluster:
        ready(cluster)
        for sizes in ({"engines": 0}, {"frontends": 999}, {}):
            with pytest.raises(ControlError, match="scale: "):
                begin(cluster, "scale", **sizes)
        assert cluster.status().last_operation is None


def test_an_engine_that_fails_leaves_its_flight_record_to_the_launcher() -> None:
    with SmallLauncher("--engines", "idle,idle") as cluster:
        ready(cluster)
        path = flight_record_path(cluster.run_directory, 1, 1)
        recorder = FlightRecorder(path, max_requests=4)
        recorder.record(FlightRecord(["a"]))
        os.kill(cluster.child("engine 1").pid, signal.SIGSEGV)
        cluster.wait_for_incarnation("engine 1", 2)
        recorder.close()
        assert not path.exists()


def test_nothing_is_begun_while_the_cluster_starts() -> None:
    with SmallLauncher("--engines", "load-forever") as cluster:
        cluster.wait_for_stderr("engine 0.1 is loading")
        with pytest.raises(
            OperationConflict, match="drain engine 0: the cluster is still starting"
        ):
            begin(cluster, "drain", engine=0, force=True)
