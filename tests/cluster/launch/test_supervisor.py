"""A launcher with the real coordinator and small rooms: start, restart, drain, and every end."""

import os
import signal
import socket
import tempfile
import time
from pathlib import Path

import zmq

from cluster.launch.control_client import ask
from cluster.launch.exit_codes import ExitCode
from cluster.launch.procedures import END_SECONDS
from cluster.launch.rundir import live_runs
from cluster.telemetry.metrics import render_metrics
from cluster.wire.endpoints import Endpoints
from cluster.wire.sockets import connect_dealer, new_context
from tests.support.processes import children_of, is_running
from tests.support.small_launcher import SmallLauncher
from tests.support.waiting import wait_until

# ── starting ──


def test_a_cluster_says_where_it_is_and_knows_its_processes() -> None:
    with SmallLauncher("--frontends", "serve,serve") as cluster:
        line = cluster.wait_until_up()
        status = cluster.status()
        assert line.startswith(status.url)
        assert status.id in line
        wait_until(lambda: cluster.status().state == "ready")
        names = [process.name for process in cluster.status().processes]
        assert names == ["coordinator", "engine 0", "engine 1", "frontend 0", "frontend 1"]
        engine = cluster.child("engine 1")
        assert (engine.state, engine.running, engine.kv_cache_usage) == ("ready", 2, 0.5)
        assert is_running(engine.pid)
        assert "-P -m tests.support.small_room" in " ".join(engine.command)


def test_the_port_accepts_connections_from_the_start() -> None:
    with SmallLauncher("--engines", "load-forever") as cluster:
        run = wait_until(lambda: live_runs(cluster.root))[0]
        wait_until((run / "state.json").exists)
        port = int(cluster.status().url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass
        cluster.wait_for_state("engine 0", "loading")
        assert cluster.child("engine 0").progress == 0.5
        assert cluster.status().state == "starting"


def test_a_child_that_dies_at_start_ends_the_launch_with_its_last_lines() -> None:
    with SmallLauncher("--engines", "load-forever,fail") as cluster:
        assert cluster.exit_code() == ExitCode.NOT_STARTED
        end = cluster.stderr().partition("launch: engine 1 ended while it was starting")[2]
        assert end.startswith(": exit code 3.")
        assert "are nowhere to be found" in end
        assert cluster.has_left_nothing()


def test_a_start_that_takes_too_long_is_given_up_naming_who_was_waited_for() -> None:
    with SmallLauncher("--engines", "load-forever", "--startup-timeout", "2") as cluster:
        assert cluster.exit_code() == ExitCode.NOT_STARTED
        assert "within --startup-timeout 2 s: " in cluster.stderr()
        assert "engine 0 is loading" in cluster.stderr()
        assert cluster.has_left_nothing()


def test_two_clusters_do_not_disturb_each_other() -> None:
    with SmallLauncher("--cluster-id", "one") as first:
        first.wait_until_up()
        with SmallLauncher("--cluster-id", "two", root=first.root) as second:
            second.wait_until_up()
            assert [path.name for path in live_runs(first.root)] == ["one", "two"]
            second.signal(signal.SIGTERM)
            assert second.exit_code() == ExitCode.OK
        assert first.status().state in ("starting", "ready")
        with SmallLauncher("--cluster-id", "one", root=first.root) as third:
            assert third.exit_code() == ExitCode.BAD_SETTING
            assert "--cluster-id one is running already" in third.stderr()


# ── restarting ──


def test_a_killed_engine_comes_back_under_a_new_incarnation() -> None:
    with SmallLauncher() as cluster:
        cluster.wait_until_up()
        killed = cluster.wait_for_state("engine 0", "ready")
        os.kill(killed.pid, signal.SIGKILL)
        back = cluster.wait_for(
            "engine 0", lambda engine: engine.incarnation == 2 and engine.state == "ready"
        )
        assert back.pid != killed.pid
        assert (back.restarts, back.last_exit) == (1, "SIGKILL")
        metrics = render_metrics(cluster.run_directory / "metrics").decode()
        assert 'quadriga_engine_restarts_total{cause="SIGKILL",engine="0"} 1.0' in metrics
        assert 'quadriga_engine_incarnation{engine="0"} 2.0' in metrics
        wait_until(
            lambda: (
                'quadriga_engine_up{engine="0"} 1.0'
                in render_metrics(cluster.run_directory / "metrics").decode()
            )
        )


def test_a_killed_coordinator_and_a_killed_frontend_come_back() -> None:
    with SmallLauncher() as cluster:
        cluster.wait_until_up()
        for name in ("coordinator", "frontend 0"):
            os.kill(cluster.child(name).pid, signal.SIGKILL)
            cluster.wait_for(
                name, lambda process: process.incarnation == 2 and process.state == "ready"
            )
        cluster.wait_for_state("engine 0", "ready")


def test_a_frozen_engine_is_killed_on_the_coordinators_verdict() -> None:
    with SmallLauncher("--suspect-after", "0.3", "--hang-timeout", "0.8") as cluster:
        cluster.wait_until_up()
        frozen = cluster.wait_for_state("engine 1", "ready")
        os.kill(frozen.pid, signal.SIGSTOP)
        back = cluster.wait_for_incarnation("engine 1", 2)
        assert "no sign of life" in back.last_exit
        assert cluster.child("engine 0").incarnation == 1


def test_a_frozen_frontend_is_killed_on_the_coordinators_verdict() -> None:
    flags = ("--frontends", "serve,serve", "--suspect-after", "0.2", "--hang-timeout", "0.3")
    with SmallLauncher(*flags) as cluster:
        cluster.wait_until_up()
        frozen = cluster.wait_for_state("frontend 1", "ready")
        os.kill(frozen.pid, signal.SIGSTOP)
        back = cluster.wait_for_incarnation("frontend 1", 2)
        assert "no sign of life" in back.last_exit
        cluster.wait_for_state("frontend 1", "ready")
        assert cluster.child("frontend 0").incarnation == 1


def test_a_frozen_coordinator_is_replaced() -> None:
    with SmallLauncher() as cluster:
        cluster.wait_until_up()
        os.kill(cluster.child("coordinator").pid, signal.SIGSTOP)
        back = cluster.wait_for_incarnation("coordinator", 2)
        assert back.last_exit.startswith("hung: no view for")
        cluster.wait_for_state("engine 0", "ready")


def test_an_engine_that_cannot_come_back_leaves_the_others_serving() -> None:
    with SmallLauncher("--engines", "serve,fail-later") as cluster:
        cluster.wait_until_up()
        os.kill(cluster.child("engine 1").pid, signal.SIGKILL)
        cluster.wait_for("engine 1", lambda engine: engine.restarts >= 3)
        assert cluster.status().state == "degraded"
        assert cluster.child("engine 0").state == "ready"
        assert cluster.child("engine 1").last_exit == "exit code 3"


# ── ending ──


def test_sigterm_drains_and_leaves_nothing() -> None:
    with SmallLauncher() as cluster:
        cluster.wait_until_up()
        cluster.signal(signal.SIGTERM)
        assert cluster.exit_code() == ExitCode.OK
        assert cluster.has_left_nothing()


def test_ctrl_c_reaches_the_launcher_alone() -> None:
    """Its children are in groups of their own, whatever a terminal sends to the foreground one."""
    with SmallLauncher() as cluster:
        cluster.wait_until_up()
        groups = {os.getpgid(child) for child in children_of(cluster.process.pid)}
        assert os.getpgid(cluster.process.pid) not in groups
        cluster.signal(signal.SIGINT)
        assert cluster.exit_code() == ExitCode.OK


def test_engines_that_still_load_hold_up_no_end() -> None:
    with SmallLauncher("--engines", "load-deaf") as cluster:
        wait_until(lambda: live_runs(cluster.root))
        cluster.wait_for_stderr("engine 0.1 is loading")
        started = time.monotonic()
        cluster.signal(signal.SIGTERM)
        assert cluster.exit_code() == ExitCode.OK
        assert time.monotonic() - started < END_SECONDS
        assert cluster.has_left_nothing()


def test_requests_cut_by_the_deadline_make_it_exit_code_1() -> None:
    with SmallLauncher("--frontends", "serve,stubborn", "--shutdown-timeout", "0.1") as cluster:
        cluster.wait_until_up()
        cluster.wait_for_state("frontend 1", "ready")
        cluster.signal(signal.SIGTERM)
        assert cluster.exit_code() == ExitCode.FAILED
        assert cluster.has_left_nothing()


def test_a_frontend_that_died_earlier_cuts_nothing_at_the_end() -> None:
    with SmallLauncher("--frontends", "serve,serve", "--max-restarts", "0") as cluster:
        cluster.wait_until_up()
        frontend = cluster.wait_for_state("frontend 1", "ready")
        os.kill(frontend.pid, signal.SIGKILL)
        cluster.wait_for_state("frontend 1", "restarting")
        cluster.signal(signal.SIGTERM)
        assert cluster.exit_code() == ExitCode.OK


def test_requests_that_a_frontend_gave_up_make_it_exit_code_1() -> None:
    with SmallLauncher("--frontends", "cut") as cluster:
        cluster.wait_until_up()
        cluster.signal(signal.SIGTERM)
        assert cluster.exit_code() == ExitCode.FAILED


def test_a_draining_cluster_restarts_engines_but_not_frontends() -> None:
    with SmallLauncher("--engines", "serve", "--frontends", "stubborn,serve") as cluster:
        cluster.wait_until_up()
        cluster.wait_for_state("frontend 1", "ready")
        cluster.signal(signal.SIGTERM)
        cluster.wait_for_state("frontend 1", "ended")
        assert cluster.status().state == "draining"
        os.kill(cluster.child("engine 0").pid, signal.SIGKILL)
        cluster.wait_for_incarnation("engine 0", 2)
        assert cluster.child("frontend 1").state == "ended"


def test_a_second_signal_ends_everything_at_once() -> None:
    for second, code in ((signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, 143)):
        with SmallLauncher("--frontends", "stubborn") as cluster:
            cluster.wait_until_up()
            cluster.signal(signal.SIGTERM)
            cluster.wait_for_stderr("draining")
            cluster.signal(second)
            assert cluster.exit_code(5) == code
            assert cluster.has_left_nothing()


def test_no_child_outlives_a_launcher_that_was_killed() -> None:
    with SmallLauncher("--engines", "stubborn", "--frontends", "stubborn") as cluster:
        cluster.wait_until_up()
        assert len(cluster.children()) == 3
        cluster.signal(signal.SIGKILL)
        wait_until(lambda: not cluster.children(), 5)


def test_a_launcher_that_was_killed_blocks_no_successor() -> None:
    with tempfile.TemporaryDirectory(prefix="q", dir="/tmp") as folder:
        root = Path(folder) / "quadriga"
        with SmallLauncher("--cluster-id", "same", root=root) as cluster:
            cluster.wait_until_up()
            cluster.signal(signal.SIGKILL)
            cluster.exit_code()
            assert (root / "same" / "cluster.json").exists()
        with SmallLauncher("--cluster-id", "same", root=root) as successor:
            successor.wait_until_up()


def test_when_no_engine_can_be_kept_running_the_cluster_ends_with_the_cause() -> None:
    flags = ("--engines", "serve,fail-later", "--impatient", "--max-restarts", "0")
    with SmallLauncher(*flags) as cluster:
        cluster.wait_until_up()
        os.kill(cluster.child("engine 1").pid, signal.SIGKILL)
        cluster.wait_for_state("engine 1", "parked")
        assert cluster.status().state == "degraded"
        cluster.signal(signal.SIGTERM)
        assert cluster.exit_code() == ExitCode.OK
    with SmallLauncher("--engines", "fail-later", *flags[2:]) as cluster:
        cluster.wait_until_up()
        os.kill(cluster.child("engine 0").pid, signal.SIGKILL)
        assert cluster.exit_code() == ExitCode.CANNOT_SERVE
        assert "no engine can be kept running" in cluster.stderr()
        assert "engine 0's: exit code 3" in cluster.stderr()
        assert cluster.has_left_nothing()


# ── control ──


def test_stop_is_answered_and_obeyed() -> None:
    with SmallLauncher() as cluster:
        cluster.wait_until_up()
        assert ask(cluster.run_directory, "stop") == "{}"
        assert cluster.exit_code() == ExitCode.OK


def test_stop_now_waits_for_nobody() -> None:
    with SmallLauncher("--frontends", "stubborn") as cluster:
        cluster.wait_until_up()
        ask(cluster.run_directory, "stop", "now")
        assert cluster.exit_code(5) == ExitCode.FAILED


def test_bad_control_frames_are_counted_and_dropped() -> None:
    with SmallLauncher() as cluster:
        cluster.wait_until_up()
        run = cluster.run_directory
        with (
            new_context() as context,
            connect_dealer(context, Endpoints(run).control, b"stranger") as stranger,
        ):
            for frames in ([b""], [b"\x51", b"\xc1"], [b"\x01", b"\x90"], [b"x"] * 9):
                stranger.send_multipart(frames)
            counted = 'quadriga_wire_bad_frames_total{process="launcher"} 4.0'
            wait_until(lambda: counted in render_metrics(run / "metrics").decode())
        assert cluster.status().id == run.name


def test_garbage_on_every_socket_is_counted_and_ends_nobody() -> None:
    with SmallLauncher("--frontends", "serve") as cluster:
        cluster.wait_until_up()
        run = cluster.run_directory
        endpoints = Endpoints(run)
        with new_context() as context:
            for kind, address in (
                (zmq.PUSH, endpoints.reports),
                (zmq.DEALER, endpoints.control),
                (zmq.XSUB, endpoints.view),
            ):
                with context.socket(kind) as stranger:
                    stranger.connect(address)
                    for frames in ([b"garbage"], [b"\x12", b"\xc1" * 9], [b"\x01view", b""]):
                        stranger.send_multipart(frames)
                    stranger.setsockopt(zmq.LINGER, 2000)
                path = address.removeprefix("ipc://")
                with socket.socket(socket.AF_UNIX) as raw:
                    raw.connect(path)
                    raw.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)

        def counted(process: str) -> bool:
            metrics = render_metrics(run / "metrics").decode()
            return f'quadriga_wire_bad_frames_total{{process="{process}"}} 3.0' in metrics

        wait_until(lambda: counted("coordinator") and counted("launcher"))
        cluster.wait_for_state("engine 1", "ready")
        assert [process.incarnation for process in cluster.status().processes] == [1, 1, 1, 1]
