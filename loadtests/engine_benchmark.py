"""`python -m loadtests engine`: one engine in process, beside transformers and the machine's limits."""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from cluster.errors import ConfigError, StartupError
from cluster.launch.embedded_model import ensure_embedded_model
from cluster.launch.plan import SPINS_BEFORE_SLEEP
from loadtests.arguments import output_file, positive_int, positive_ints
from loadtests.engine_lab.llama_shape import SHAPES
from loadtests.engine_lab.options import Device, EngineLoad, EngineTarget
from loadtests.json_report import STANDARD_OUTPUT, write_json

EXIT_MISSED = 1
EXIT_USAGE = 2
_DEFAULT = EngineLoad()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    models = parser.add_mutually_exclusive_group()
    models.add_argument("--model", type=Path, metavar="DIR",
                        help="folder of the model (default: the embedded one)")  # fmt: skip
    models.add_argument("--shape", choices=tuple(SHAPES),
                        help="instead: a Llama of this size with random weights")  # fmt: skip
    parser.add_argument("--quantization", choices=("none", "int8"), default="none",
                        help="of the weights (default: %(default)s)")  # fmt: skip
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), help="default: the first that is there"
    )
    parser.add_argument("--threads", type=positive_int, default=_num_cores(), metavar="N",
                        help="on a CPU (default: all cores)")  # fmt: skip
    _add_load(parser.add_argument_group("load"))
    parser.add_argument("--no-reference", action="store_true",
                        help="leave transformers out, and the lines about it")  # fmt: skip
    parser.add_argument("--perplexity", type=input_file, metavar="FILE",
                        help="instead of speed: how well this text is predicted")  # fmt: skip
    parser.add_argument("--json", type=output_file, metavar="FILE",
                        help="write the report there too; - is standard output, alone")  # fmt: skip


def _add_load(load: "argparse._ArgumentGroup") -> None:
    load.add_argument("--batches", type=positive_ints, default=_DEFAULT.batches, metavar="N,…",
                      help="sequences that decode together (default: 1,8,32)")  # fmt: skip
    load.add_argument("--contexts", type=positive_ints, default=_DEFAULT.contexts, metavar="N,…",
                      help="their lengths; transformers takes part in the shortest "
                      "(default: 256,1024)")  # fmt: skip
    load.add_argument("--prefill-tokens", type=positive_int, default=_DEFAULT.prefill_tokens,
                      metavar="N", help="length of a prompt (default: %(default)s)")  # fmt: skip
    load.add_argument("--repeats", type=positive_int, default=_DEFAULT.repeats, metavar="N",
                      help="of which the median counts (default: %(default)s)")  # fmt: skip
    load.add_argument("--steps", type=positive_int, default=_DEFAULT.steps, metavar="N",
                      help="in each repeat (default: %(default)s)")  # fmt: skip


def input_file(text: str) -> Path:
    """A file that is there."""
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is not a file")
    return Path(text)


def main(arguments: argparse.Namespace) -> int:
    """Print what was measured; 0 if every line is kept, 1 if one is not, 2 for what cannot be done."""
    # As `launch` sets it for engines; to be read when torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS_BEFORE_SLEEP))
    try:
        with _model_folder(arguments) as folder:
            return _measure(arguments, folder)
    except (ConfigError, StartupError) as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE


@contextmanager
def _model_folder(arguments: argparse.Namespace) -> Iterator[Path]:
    if arguments.shape is None:
        yield arguments.model or ensure_embedded_model()
        return
    from loadtests.engine_lab.random_model import write_random_llama

    with tempfile.TemporaryDirectory(prefix="quadriga-") as parent:
        folder = Path(parent) / f"llama-{arguments.shape}"
        folder.mkdir()
        _say(f"writing random weights, {arguments.shape}")
        write_random_llama(SHAPES[arguments.shape], folder)
        yield folder


def _measure(arguments: argparse.Namespace, folder: Path) -> int:
    target = EngineTarget(
        folder, arguments.device or _default_device(), arguments.threads, arguments.quantization
    )
    if arguments.perplexity is not None:
        from loadtests.engine_lab.perplexity import measure_perplexity, perplexity_text

        quality = measure_perplexity(target, arguments.perplexity.read_text(encoding="utf-8"))
        _show(arguments.json, quality, perplexity_text(quality))
        return 0
    from loadtests.engine_lab.measurement import measure_engine
    from loadtests.engine_lab.table import report_text

    load = EngineLoad(
        arguments.batches, arguments.contexts, arguments.prefill_tokens, arguments.repeats,
        arguments.steps,
    )  # fmt: skip
    report = measure_engine(target, load, not arguments.no_reference, _say)
    _show(arguments.json, report, report_text(report))
    return 0 if report.is_kept else EXIT_MISSED


def _show(file: Path | None, report: msgspec.Struct, text: str) -> None:
    if file != STANDARD_OUTPUT:
        print(text)
    write_json(report, file)


def _say(what: str) -> None:
    print(f"measuring: {what} …", file=sys.stderr, flush=True)


def _num_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _default_device() -> Device:
    from loadtests.engine_lab.limits import has_gpu

    return "cuda" if has_gpu() else "cpu"
