"""What a view says of a process counts for its current incarnation alone."""

import asyncio

from cluster.launch.config_sources import resolve_config
from cluster.launch.exit_cause import ExitCause
from cluster.launch.keeper import ProcessKeeper
from cluster.launch.managed_process import ManagedProcess
from cluster.launch.plan import ProcessSpec
from cluster.launch.rundir import RunDirectory
from cluster.launch.view_reader import apply_view
from cluster.wire.messages import (
    ClusterView,
    EngineEntry,
    EnginePhase,
    EngineState,
    FrontendEntry,
    LoadReport,
    Role,
)


def view(
    engines: list[EngineEntry] | None = None, frontends: list[FrontendEntry] | None = None
) -> ClusterView:
    return ClusterView(1, 1, False, engines or [], frontends or [])


class Sleepers:
    """Two processes that run, and nothing more: an engine and a frontend."""

    def __init__(self) -> None:
        self.run_directory = RunDirectory.create(None, 1)
        command = ("/bin/sh", "-c", "exec sleep 60")
        self.keeper = ProcessKeeper(
            [ProcessSpec(role, 0, command) for role in (Role.ENGINE, Role.FRONTEND)],
            resolve_config().launch,
            self.run_directory,
            -1,
            lambda _: None,
            lambda _: None,
            lambda _: None,
            lambda _: None,
        )

    async def __aenter__(self) -> list[ManagedProcess]:
        self.keeper.start_all()
        return self.keeper.processes

    async def __aexit__(self, *_: object) -> None:
        self.keeper.kill(*Role)
        assert await self.keeper.ended(*Role, timeout_seconds=10)
        self.keeper.close()
        self.run_directory.remove()


async def test_an_engines_phase_and_progress_come_from_its_report() -> None:
    async with Sleepers() as (engine, frontend):
        report = LoadReport(0, 1, 1, EnginePhase.LOADING, progress=0.25)
        entry = EngineEntry(0, 1, EngineState.STARTING, report=report)
        assert list(apply_view(view([entry]), [engine, frontend])) == []
        assert (engine.phase, engine.progress, engine.was_ready) == ("loading", 0.25, False)
        ready = EngineEntry(0, 1, EngineState.READY, report=report)
        assert list(apply_view(view([ready]), [engine, frontend])) == []
        assert (engine.is_ready, engine.was_ready, engine.progress) == (True, True, 0.0)
        assert frontend.phase == "starting"


async def test_a_coordinator_that_is_new_makes_no_engine_start_again() -> None:
    async with Sleepers() as (engine, _):
        list(apply_view(view([EngineEntry(0, 1, EngineState.READY)]), [engine]))
        list(apply_view(view([EngineEntry(0, 1, EngineState.STARTING)]), [engine]))
        assert engine.is_ready


async def test_an_engine_declared_dead_is_named_with_the_verdict() -> None:
    async with Sleepers() as (engine, _):
        dead = EngineEntry(0, 1, EngineState.DEAD, "hung: no step for 3 s", fault=True)
        verdicts = list(apply_view(view([dead]), [engine]))
        assert verdicts == [(engine, ExitCause("hung: no step for 3 s", fault=True))]


async def test_what_is_said_of_another_incarnation_changes_nothing() -> None:
    async with Sleepers() as (engine, frontend):
        dead = EngineEntry(0, 0, EngineState.DEAD, "SIGKILL")
        old = FrontendEntry(0, 0, True, requests_address="ipc://old")
        assert list(apply_view(view([dead], [old]), [engine, frontend])) == []
        assert (engine.phase, frontend.phase) == ("starting", "starting")


async def test_a_frontend_is_ready_once_it_has_said_where_it_listens() -> None:
    async with Sleepers() as (_, frontend):
        list(apply_view(view(frontends=[FrontendEntry(0, 1, True)]), [frontend]))
        assert frontend.phase == "starting"
        hello = FrontendEntry(0, 1, True, requests_address="ipc://f0.1.requests")
        list(apply_view(view(frontends=[hello]), [frontend]))
        assert frontend.is_ready


async def test_a_frontend_declared_dead_is_named_with_the_verdict() -> None:
    async with Sleepers() as (_, frontend):
        dead = FrontendEntry(0, 1, False, "ipc://f0.1.requests", cause="silent: 9 s", fault=True)
        verdicts = list(apply_view(view(frontends=[dead]), [frontend]))
        assert verdicts == [(frontend, ExitCause("silent: 9 s", fault=True))]
        assert not frontend.is_ready


async def test_the_dead_are_past_verdicts() -> None:
    async with Sleepers() as (engine, frontend):
        assert engine.child is not None
        engine.child.kill()
        async with asyncio.timeout(10):
            await engine.ended.wait()
        dead = EngineEntry(0, 1, EngineState.DEAD, "SIGKILL")
        assert list(apply_view(view([dead]), [engine, frontend])) == []
        assert engine.entry().cause == "SIGKILL"
        assert frontend.is_alive
