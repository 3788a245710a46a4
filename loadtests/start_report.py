"""What the starts of a cluster took, in time and in memory, against the limits."""

from collections.abc import Callable, Iterator, Sequence
from statistics import median

import msgspec

FIRST_ANSWER_LIMIT_SECONDS = 20.0
ENGINE_LIMIT_BYTES = 1024**3
"""Of an engine, beyond its KV cache."""
MIB = 1024**2


class Footprint(msgspec.Struct, frozen=True):
    """What a process has used and holds, once the cluster is ready."""

    role: str
    processor_seconds: float
    pss_bytes: int
    """Its own memory, and its share of what it has in common with others."""
    uss_bytes: int
    """What would be free if it ended."""
    rss_bytes: int
    """All that it has in memory, what it shares counted in full."""
    kv_bytes: int = 0
    """Of that, the KV cache in use."""


class Start(msgspec.Struct, frozen=True):
    """One start of a cluster; seconds count from the command."""

    first_answer_seconds: float
    phase_seconds: dict[str, float]
    """When the last process of a role came to a phase, such as `engine ready`."""
    footprints: list[Footprint]

    @property
    def largest_engine_bytes(self) -> int:
        """The most that an engine takes, beyond its KV cache."""
        engines = [process for process in self.footprints if process.role == "engine"]
        return max(process.pss_bytes - process.kv_bytes for process in engines)


class StartReport(msgspec.Struct, frozen=True):
    """All starts; what counts is the median, since one may have bad luck."""

    flags: list[str]
    """Those of `launch`."""
    starts: list[Start]

    @property
    def first_answer_seconds(self) -> float:
        """The median."""
        return median(start.first_answer_seconds for start in self.starts)

    @property
    def engine_bytes(self) -> float:
        """The median of the largest engines."""
        return median(start.largest_engine_bytes for start in self.starts)

    @property
    def is_kept(self) -> bool:
        """Whether both limits hold."""
        return (
            self.first_answer_seconds <= FIRST_ANSWER_LIMIT_SECONDS
            and self.engine_bytes <= ENGINE_LIMIT_BYTES
        )


def start_lines(report: StartReport, machine: str) -> Iterator[str]:
    """The report as text: first answer, phases, memory."""
    first = [start.first_answer_seconds for start in report.starts]
    yield f"launch {' '.join(report.flags)}: {len(first)} starts, {machine}"
    yield _with_limit(
        f"first answer {report.first_answer_seconds:.2f} s "
        f"({min(first):.2f} to {max(first):.2f}; the first start {first[0]:.2f})",
        f"{FIRST_ANSWER_LIMIT_SECONDS:g} s",
        report.first_answer_seconds <= FIRST_ANSWER_LIMIT_SECONDS,
    )
    yield _with_limit(
        f"largest engine {report.engine_bytes / MIB:.0f} MiB beyond its KV cache",
        f"{ENGINE_LIMIT_BYTES / MIB:.0f} MiB",
        report.engine_bytes <= ENGINE_LIMIT_BYTES,
    )
    yield ""
    yield "the last of them is …        s"
    for phase, seconds in median_phases(report.starts).items():
        yield f"{phase:<22}{seconds:>8.2f}"
    yield ""
    yield "one process     processor s  PSS MiB  USS MiB  RSS MiB"
    for role in dict.fromkeys(process.role for process in report.starts[0].footprints):
        yield _memory_line(role, report.starts)


def _with_limit(text: str, limit: str, is_kept: bool) -> str:
    return f"{text} (limit {limit}){'' if is_kept else '  EXCEEDED'}"


def median_phases(starts: Sequence[Start]) -> dict[str, float]:
    """The median time of each phase, over the starts that have it, in order of time."""
    names = dict.fromkeys(name for start in starts for name in start.phase_seconds)
    medians = {
        name: median(start.phase_seconds[name] for start in starts if name in start.phase_seconds)
        for name in names
    }
    return dict(sorted(medians.items(), key=lambda item: item[1]))


def _memory_line(role: str, starts: Sequence[Start]) -> str:
    some = [process for start in starts for process in start.footprints if process.role == role]

    def middle(value: Callable[[Footprint], float]) -> float:
        return median(map(value, some))

    mebibytes = (
        middle(lambda process: process.pss_bytes) / MIB,
        middle(lambda process: process.uss_bytes) / MIB,
        middle(lambda process: process.rss_bytes) / MIB,
    )
    processor_seconds = middle(lambda process: process.processor_seconds)
    return f"{role:<16}{processor_seconds:>11.2f}" + "".join(f"{mib:>9.0f}" for mib in mebibytes)
