"""From a resolved configuration to a running cluster, and to the end of it."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence

import msgspec

from cluster.config import ClusterConfig, save_config
from cluster.errors import ConfigError, StartupError
from cluster.launch.error_output import ErrorOutput
from cluster.launch.exit_codes import ExitCode
from cluster.launch.listener import listener_url, start_listening
from cluster.launch.plan import ProcessSpec, make_plan
from cluster.launch.rundir import RunDirectory
from cluster.launch.supervisor import STOP_SIGNALS, Outcome, Supervisor
from cluster.telemetry.logs import configure_logging
from cluster.telemetry.metrics import join_metrics
from cluster.telemetry.process import set_process_title
from cluster.wire.sockets import Context, new_context

Planner = Callable[[ClusterConfig, RunDirectory], Sequence[ProcessSpec]]


def plan_rooms(config: ClusterConfig, run_directory: RunDirectory) -> Sequence[ProcessSpec]:
    """The plan of a real cluster on this machine's cores."""
    return make_plan(
        config,
        run_directory.config_path,
        run_directory.metrics_directory,
        sorted(os.sched_getaffinity(0)),
    )


def run_cluster(
    config: ClusterConfig, listener: socket.socket, planner: Planner = plan_rooms
) -> ExitCode:
    """Run a cluster behind a bound listener until it ends, and remove all trace of it.

    Raises ConfigError if it cannot begin, StartupError if it does not come up.
    """
    run_directory = RunDirectory.create(config.launch.cluster_id, config.num_frontends)
    try:
        start_listening(listener)
        config = _with_run_directory(config, run_directory, listener)
        _begin_files(config, run_directory)
        outcome = _supervise(config, planner, run_directory, listener)
    finally:
        run_directory.remove()
        listener.close()
    if outcome.code is ExitCode.NOT_STARTED:
        raise StartupError(outcome.reason)
    if outcome.reason:
        print(f"launch: {outcome.reason}", file=sys.stderr, flush=True)
    return outcome.code


def _begin_files(config: ClusterConfig, run_directory: RunDirectory) -> None:
    try:
        save_config(config, run_directory.config_path)
        join_metrics(run_directory.metrics_directory, "launcher")
    except OSError as error:
        raise ConfigError(f"{run_directory.path} cannot be written: {error.strerror}") from None


def _with_run_directory(
    config: ClusterConfig, run_directory: RunDirectory, listener: socket.socket
) -> ClusterConfig:
    """The configuration with what is known only now, so that a child can rely on it."""
    replace = msgspec.structs.replace
    as_console = config.launch.log_format == "auto" and sys.stderr.isatty()
    log_format = "console" if as_console else config.launch.log_format
    return replace(
        config,
        run_directory=str(run_directory.path),
        frontend=replace(config.frontend, port=listener.getsockname()[1]),
        launch=replace(config.launch, cluster_id=run_directory.cluster_id, log_format=log_format),
    )


def _supervise(
    config: ClusterConfig,
    planner: Planner,
    run_directory: RunDirectory,
    listener: socket.socket,
) -> Outcome:
    set_process_title(f"quadriga: launch {run_directory.cluster_id}")
    configure_logging("launch", config.launch.log_level, config.launch.log_format)
    with _shared_output() as output, _zmq_context() as context:
        logging.getLogger("launch").info(
            "cluster %s on %s, run directory %s",
            run_directory.cluster_id,
            listener_url(listener, config.frontend.is_over_tls),
            run_directory.path,
        )

        async def live() -> Outcome:
            try:
                supervisor = Supervisor(
                    config,
                    lambda config: planner(config, run_directory),
                    run_directory,
                    listener,
                    context,
                    output,
                )
                return await supervisor.run()
            finally:
                # The loop's end would restore the default: to die, and leave the clean-up undone.
                signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)

        return asyncio.run(live())


@contextlib.contextmanager
def _zmq_context() -> Iterator[Context]:
    """A context that closes its sockets at the end, whatever happened."""
    context = new_context()
    try:
        yield context
    finally:
        context.destroy()


@contextlib.contextmanager
def _shared_output() -> Iterator[ErrorOutput]:
    """Standard error for the log of this process and for its children's output alike."""
    output = ErrorOutput()
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(output)
    try:
        yield output
    finally:
        output.close()
