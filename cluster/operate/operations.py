"""`cluster drain`, `cluster restart` and `cluster scale`."""

import argparse
from collections.abc import Sequence

from cluster.launch.control_client import find_run
from cluster.operate.following import carry_out

_RESTART_USAGE = "give a rank, `frontend K`, `coordinator`, or --rolling"


def add_operations(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> Sequence[argparse.ArgumentParser]:
    """Add the three commands; returns their parsers."""
    drain = commands.add_parser(
        "drain", help="Take an engine out of service; its requests finish, or move at the deadline."
    )
    drain.add_argument("engine", type=int, metavar="R", help="The engine's rank.")
    drain.add_argument(
        "--deadline",
        type=float,
        metavar="SECONDS",
        help="What its requests get before they move. Default: --shutdown-timeout of the cluster.",
    )
    drain.add_argument(
        "--force", action="store_true", help="Even if no other engine serves: requests then wait."
    )
    restart = commands.add_parser(
        "restart", help="Restart an engine, frontend K, the coordinator, or all one by one."
    )
    restart.add_argument("what", nargs="*", metavar="R | frontend K | coordinator")
    restart.add_argument(
        "--rolling", action="store_true", help="Every process, one at a time; no request fails."
    )
    scale = commands.add_parser("scale", help="Have more engines and frontends, or fewer.")
    scale.add_argument(
        "--dp", "--data-parallel-size", dest="engines", type=int, metavar="M", help="Engines."
    )
    scale.add_argument(
        "--frontends", type=int, metavar="K", help="Frontends. Default: as many as now."
    )
    restart.set_defaults(error=restart.error)
    return drain, restart, scale


def drain(arguments: argparse.Namespace) -> None:
    """Drain an engine. Raises ControlError if that fails."""
    asked: dict[str, object] = {"engine": arguments.engine, "force": arguments.force}
    if arguments.deadline is not None:
        asked["deadline"] = arguments.deadline
    carry_out(find_run(arguments.cluster), "drain", asked)


def restart(arguments: argparse.Namespace) -> None:
    """Restart what is named. Raises ControlError if that fails; ends the command if it is unclear."""
    asked = _what_to_restart(arguments.what, arguments.rolling)
    if asked is None:
        arguments.error(_RESTART_USAGE)
    else:
        carry_out(find_run(arguments.cluster), "restart", asked)


def _what_to_restart(words: Sequence[str], is_rolling: bool) -> dict[str, object] | None:
    match list(words), is_rolling:
        case [], True:
            return {"rolling": True}
        case ["coordinator"], False:
            return {"coordinator": True}
        case [("engine" | "frontend") as role, index], False if index.isdecimal():
            return {role: int(index)}
        case [index], False if index.isdecimal():
            return {"engine": int(index)}
        case _:
            return None


def scale(arguments: argparse.Namespace) -> None:
    """Come to another size. Raises ControlError if that fails."""
    sizes = {"engines": arguments.engines, "frontends": arguments.frontends}
    asked = {name: number for name, number in sizes.items() if number is not None}
    carry_out(find_run(arguments.cluster), "scale", asked)
