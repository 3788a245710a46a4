"""The arguments of `cluster drill`, apart from the drills: other commands show them and need no drill."""

import argparse
from pathlib import Path

from loadtests.arguments import output_file, positive_float, positive_int, url


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="a drill; --list shows all")
    parser.add_argument("--all", action="store_true", help="every drill, one after the other")
    parser.add_argument("--list", action="store_true", help="show the drills, and do nothing")
    parser.add_argument("--quick", action="store_true",
                        help="fewer faults and shorter loads: a tenth, about")  # fmt: skip
    parser.add_argument("--model", action="store_true",
                        help="the embedded model in place of simulated engines")  # fmt: skip
    parser.add_argument("--minutes", type=positive_float, metavar="N", help="how long `soak` lasts")
    parser.add_argument("--kills", type=positive_float, metavar="N",
                        help="how often `soak` and `kill-engine` kill")  # fmt: skip
    parser.add_argument("--engines", type=positive_int, metavar="N",
                        help="how many engines `soak` and `kill-engine` have")  # fmt: skip
    parser.add_argument("--json", type=output_file, metavar="FILE",
                        help="write verdicts with everything that was seen")  # fmt: skip
    parser.add_argument("--html", type=output_file, metavar="FILE",
                        help="write a page with timelines")  # fmt: skip
    parser.add_argument("--markdown", type=output_file, metavar="FILE",
                        help="write the table of figures")  # fmt: skip
    parser.add_argument("--against", type=url, metavar="URL",
                        help="a running cluster, which serves others: harmless drills only")  # fmt: skip
    parser.add_argument("--i-mean-it", action="store_true", help="needed for --against")
    parser.add_argument("--cluster", default="t", metavar="ID",
                        help="name of the clusters that are started")  # fmt: skip
    parser.add_argument("--keep-logs", type=Path, metavar="DIR", help="keep the clusters' logs")
