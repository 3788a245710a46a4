"""`python -m loadtests compare-policies`: one policy after the other under the same loads."""

import argparse
import contextlib
import signal
import sys
from collections.abc import Callable, Sequence
from typing import get_args, get_type_hints

import msgspec

from cluster.config import FrontendConfig
from loadtests.arguments import output_file, positive_float, positive_int
from loadtests.comparison.comparison import Comparison, ComparisonOptions, compare
from loadtests.comparison.load_plan import CANDIDATE, DEFAULT_LOADS, LOAD_NAMES, MODEL, SIMULATED
from loadtests.comparison.text import comparison_markdown, comparison_text, trial_text
from loadtests.comparison.trial import Trial
from loadtests.drills.drill import DrillError
from loadtests.drills.stage import machine_in_words
from loadtests.http_client import BrokenConnection

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
QUICK_SECONDS_FACTOR = 1 / 3
POLICY_NAMES: tuple[str, ...] = get_args(get_type_hints(FrontendConfig)["routing"])
DEFAULT_POLICIES = (CANDIDATE, "vllm", "round-robin")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("--policies", type=_names_of(POLICY_NAMES), default=DEFAULT_POLICIES,
                        metavar="A,B,…", help=f"of {', '.join(POLICY_NAMES)} "
                        f"(default: {','.join(DEFAULT_POLICIES)})")  # fmt: skip
    parser.add_argument("--loads", type=_names_of(LOAD_NAMES), default=DEFAULT_LOADS,
                        metavar="A,B,…", help=f"of {', '.join(LOAD_NAMES)} "
                        f"(default: {','.join(DEFAULT_LOADS)})")  # fmt: skip
    parser.add_argument("--rounds", type=positive_int, metavar="N",
                        help="how often each policy has its turn under each load, with other "
                        "arrivals each time (default: 2; quick: 1)")  # fmt: skip
    parser.add_argument("--requests", type=positive_int, metavar="N",
                        help="of each trial (default: as many as come in the load's own time)")  # fmt: skip
    parser.add_argument("--rate-factor", type=positive_float, default=1.0, metavar="X",
                        help="times the usual rate of requests (default: %(default)g)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0,
                        help="fixes prompts and arrivals (default: %(default)s)")  # fmt: skip
    parser.add_argument("--engines", type=positive_int, metavar="N", help=_defaults("engines"))
    parser.add_argument("--frontends", type=positive_int, metavar="N", help=_defaults("frontends"))
    parser.add_argument("--model", action="store_true",
                        help="the embedded model in place of simulated engines")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="one round, a third of the time")
    parser.add_argument("--json", type=output_file, metavar="FILE",
                        help="write everything that was measured")  # fmt: skip
    parser.add_argument("--markdown", type=output_file, metavar="FILE", help="write the tables")


def _defaults(name: str) -> str:
    return f"default: {getattr(SIMULATED, name)}; with --model {getattr(MODEL, name)}"


def _names_of(allowed: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Names with commas between them, each once."""

    def names(text: str) -> tuple[str, ...]:
        chosen = tuple(dict.fromkeys(text.split(",")))
        if unknown := [name for name in chosen if name not in allowed]:
            raise argparse.ArgumentTypeError(
                f"{', '.join(unknown)!r} is not of {', '.join(allowed)}"
            )
        return chosen

    return names


def main(arguments: argparse.Namespace) -> int:
    """Compare; 0 if every line was kept and every request answered, 1 if not."""
    options = _options(arguments)
    with contextlib.suppress(ValueError):  # only the main thread may
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        comparison = compare(options, _tell)
    except (DrillError, BrokenConnection) as error:
        print(error, file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    print(comparison_text(comparison, options.plans))
    _write(comparison, options, arguments)
    return 0 if comparison.passed else EXIT_FAILED


def _options(arguments: argparse.Namespace) -> ComparisonOptions:
    kind = MODEL if arguments.model else SIMULATED
    return ComparisonOptions(
        kind=kind,
        engines=arguments.engines or kind.engines,
        frontends=arguments.frontends or kind.frontends,
        loads=arguments.loads,
        policies=arguments.policies,
        rounds=arguments.rounds or (1 if arguments.quick else 2),
        requests=arguments.requests,
        rate_factor=arguments.rate_factor,
        seconds_factor=QUICK_SECONDS_FACTOR if arguments.quick else 1.0,
        seed=arguments.seed,
    )


def _tell(trial: Trial) -> None:
    print(trial_text(trial), flush=True)


def _write(
    comparison: Comparison, options: ComparisonOptions, arguments: argparse.Namespace
) -> None:
    if arguments.json is not None:
        encoded = msgspec.json.format(msgspec.json.encode(comparison), indent=2)
        arguments.json.write_bytes(encoded + b"\n")
    if arguments.markdown is not None:
        page = comparison_markdown(comparison, options.plans, machine_in_words())
        arguments.markdown.write_text(page)
