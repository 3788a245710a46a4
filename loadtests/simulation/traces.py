"""Recorded traffic of others, from files that a user gives: times, lengths, and shared prefixes.

Three public formats: Mooncake's JSON lines (Qin et al., FAST 2025), the CSV files of Azure's LLM
inference traces (2023 and 2024), and those of BurstGPT (Wang et al., 2024).
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from loadtests.simulation.block_chain import HASH_BYTES
from loadtests.simulation.cost_model import CostModel
from loadtests.simulation.request import ClientRequest

MOONCAKE_BLOCK_TOKENS = 512


Number = TypeVar("Number", int, float)


class TraceError(ValueError):
    """A trace file cannot be used; the text says where and why."""


class TraceRecord(NamedTuple):
    """One request of a trace."""

    seconds: float
    """When it came, on the trace's own clock."""
    prompt_tokens: int
    output_tokens: int
    block_ids: Sequence[int] = ()
    """Of each 512 tokens of the prompt; equal ids are equal blocks with equal blocks before them."""


class Trace(NamedTuple):
    """A recorded load, in the order of arrival; never empty."""

    records: Sequence[TraceRecord]

    def requests_per_second(self, cost: CostModel) -> float:
        """How many of its requests one engine can serve, with every prefix that came before cached."""
        number = len(self.records)
        return cost.requests_per_second(
            sum(record.prompt_tokens for record in self.records) / number,
            sum(record.output_tokens for record in self.records) / number,
            self._repeated_share(),
        )

    def offered(
        self, load: float | None, engines: int, seconds: float, cost: CostModel
    ) -> tuple[float, list[ClientRequest]]:
        """The load, and the requests of the first `seconds`; with a load, time is stretched to it."""
        begin, end = self.records[0].seconds, self.records[-1].seconds
        rate = len(self.records) / max(end - begin, 1e-9)
        own_load = rate / (engines * self.requests_per_second(cost))
        stretch = 1.0 if load is None else own_load / load
        times = ((record.seconds - begin) * stretch for record in self.records)
        pairs = enumerate(zip(times, self.records, strict=True))
        requests = [
            _request(index, time, record, cost) for index, (time, record) in pairs if time < seconds
        ]
        return own_load if load is None else load, requests

    def _repeated_share(self) -> float:
        seen: set[int] = set()
        repeated_tokens = 0
        for record in self.records:
            repeated = sum(block in seen for block in record.block_ids)
            repeated_tokens += min(repeated * MOONCAKE_BLOCK_TOKENS, record.prompt_tokens)
            seen.update(record.block_ids)
        return repeated_tokens / sum(record.prompt_tokens for record in self.records)


def _request(index: int, time: float, record: TraceRecord, cost: CostModel) -> ClientRequest:
    hashes = _hashes(record, cost.block_size)
    return ClientRequest(
        request_id=str(index),
        arrived_at=time,
        prompt_tokens=record.prompt_tokens,
        output_tokens=record.output_tokens,
        hashes=hashes,
        num_prompt_hashes=len(hashes),
    )


def _hashes(record: TraceRecord, block_size: int) -> tuple[bytes, ...]:
    """Of the full blocks that lie in blocks of the trace, by the number of each and the place in it."""
    num_blocks = record.prompt_tokens // block_size if record.block_ids else 0
    hashes = []
    for index in range(num_blocks):
        # The last token of a block says whose it is: all before it is equal where that is.
        place, offset = divmod((index + 1) * block_size - 1, MOONCAKE_BLOCK_TOKENS)
        number = record.block_ids[place] * MOONCAKE_BLOCK_TOKENS + offset + 1
        hashes.append(number.to_bytes(HASH_BYTES, "little"))
    return tuple(hashes)


# ── files ──


def read_trace(path: Path, trace_format: str) -> Trace:
    """The requests of a file. Raises TraceError, naming file and line, for what is not of the format.

    Requests without an answer, which failed where they were recorded, are left out.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            records = [
                record for record in TRACE_FORMATS[trace_format](path, file) if record.output_tokens
            ]
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: {error}") from error
    if not records:
        raise TraceError(f"{path}: there is no request in it")
    return Trace(sorted(records, key=lambda record: record.seconds))


class _MooncakeLine(msgspec.Struct):
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int] = []


def _read_mooncake(path: Path, lines: Iterable[str]) -> Iterator[TraceRecord]:
    decoder = msgspec.json.Decoder(_MooncakeLine)
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            line = decoder.decode(text)
        except msgspec.DecodeError as error:
            raise TraceError(f"{path}:{number}: {error}") from error
        blocks = -(-line.input_length // MOONCAKE_BLOCK_TOKENS)
        if line.hash_ids and len(line.hash_ids) < blocks:
            raise TraceError(
                f"{path}:{number}: {len(line.hash_ids)} hash_ids, and input_length"
                f" {line.input_length} is {blocks} blocks of {MOONCAKE_BLOCK_TOKENS}"
            )
        yield _checked(
            path, number, line.timestamp / 1000, line.input_length, line.output_length,
            line.hash_ids,
        )  # fmt: skip


def _read_azure(path: Path, lines: Iterable[str]) -> Iterator[TraceRecord]:
    for number, row in _rows(path, lines, ("TIMESTAMP", "ContextTokens", "GeneratedTokens")):
        yield _checked(
            path, number, _field(path, number, row, "TIMESTAMP", _iso_seconds),
            _field(path, number, row, "ContextTokens", int),
            _field(path, number, row, "GeneratedTokens", int),
        )  # fmt: skip


def _read_burstgpt(path: Path, lines: Iterable[str]) -> Iterator[TraceRecord]:
    for number, row in _rows(path, lines, ("Timestamp", "Request tokens", "Response tokens")):
        yield _checked(
            path, number, _field(path, number, row, "Timestamp", float),
            _field(path, number, row, "Request tokens", int),
            _field(path, number, row, "Response tokens", int),
        )  # fmt: skip


def _rows(
    path: Path, lines: Iterable[str], columns: Sequence[str]
) -> Iterator[tuple[int, Mapping[str, str | None]]]:
    reader = csv.DictReader(lines)
    missing = [name for name in columns if name not in (reader.fieldnames or ())]
    if missing:
        raise TraceError(f"{path}:1: there is no column {missing[0]!r}")
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise TraceError(f"{path}:{reader.line_num}: {error}") from error


def _field(
    path: Path, number: int, row: Mapping[str, str | None], name: str, read: Callable[[str], Number]
) -> Number:
    try:
        return read(row[name] or "")
    except ValueError as error:
        raise TraceError(f"{path}:{number}: {name} is {row[name]!r}") from error


def _iso_seconds(text: str) -> float:
    """`2023-11-16 18:15:46.6805900` and `2024-05-10 00:00:00.009930+00:00`, as seconds."""
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _checked(
    path: Path,
    number: int,
    seconds: float,
    prompt_tokens: int,
    output_tokens: int,
    block_ids: Sequence[int] = (),
) -> TraceRecord:
    if prompt_tokens < 0 or output_tokens < 0 or not abs(seconds) < float("inf"):
        raise TraceError(f"{path}:{number}: a time or a number of tokens is out of range")
    if any(block < 0 for block in block_ids):
        raise TraceError(f"{path}:{number}: a hash id is below 0")
    return TraceRecord(seconds, max(1, prompt_tokens), output_tokens, block_ids)


TRACE_FORMATS: Mapping[str, Callable[[Path, Iterable[str]], Iterator[TraceRecord]]] = {
    "mooncake": _read_mooncake,
    "azure": _read_azure,
    "burstgpt": _read_burstgpt,
}
