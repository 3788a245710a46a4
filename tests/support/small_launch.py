"""`launch` as it is, but for its rooms: the real coordinator with small engines and frontends.

`python -P -m tests.support.small_launch --engines serve,serve --frontends serve [launch flags]`;
each word is the behaviour of one `tests.support.small_room`.
"""

import argparse
import sys
from collections.abc import Sequence

from cluster.config import ClusterConfig
from cluster.launch import restart_policy
from cluster.launch.cli import read_config, to_exit_code
from cluster.launch.exit_codes import ExitCode
from cluster.launch.launcher import plan_rooms, run_cluster
from cluster.launch.listener import bind_listener
from cluster.launch.plan import ProcessSpec
from cluster.launch.rundir import RunDirectory
from cluster.wire.messages import Role


def _room(
    run_directory: RunDirectory, spec: ProcessSpec, behaviour: str, environment: dict[str, str]
) -> ProcessSpec:
    command = (
        *(sys.executable, "-P", "-m", "tests.support.small_room"),
        *("--role", spec.role.name.lower(), "--behaviour", behaviour),
        *("--index", str(spec.index), "--run-directory", str(run_directory.path)),
    )
    return ProcessSpec(spec.role, spec.index, command, environment, spec.inherits_listener)


def _behaviour(given: Sequence[str], index: int) -> str:
    """Those that join later have nothing to do."""
    return given[index] if index < len(given) else "idle"


def main() -> ExitCode:
    """Launch."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--engines", default="serve,serve")
    parser.add_argument("--frontends", default="serve")
    parser.add_argument("--impatient", action="store_true", help="Park after one short back-off.")
    rooms, flags = parser.parse_known_args()
    if rooms.impatient:
        restart_policy.BACK_OFF_SECONDS = (0.1,)
    engines, frontends = rooms.engines.split(","), rooms.frontends.split(",")

    def plan(config: ClusterConfig, run_directory: RunDirectory) -> Sequence[ProcessSpec]:
        behaviours = {Role.ENGINE: engines, Role.FRONTEND: frontends}
        return [
            spec
            if spec.role is Role.COORDINATOR
            else _room(
                run_directory, spec, _behaviour(behaviours[spec.role], spec.index), spec.environment
            )
            for spec in plan_rooms(config, run_directory)
        ]

    def run() -> ExitCode:
        size = ["--device", "cpu", "--dp", str(len(engines)), "--frontends", str(len(frontends))]
        config = read_config([*size, "--port", "0", *flags])
        with bind_listener(config.frontend.host, config.frontend.port) as listener:
            return run_cluster(config, listener, plan)

    return to_exit_code(run)


if __name__ == "__main__":
    sys.exit(main())
