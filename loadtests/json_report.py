"""Reports as JSON, where the `--json` of a command says."""

import sys
from pathlib import Path

import msgspec

STANDARD_OUTPUT = Path("-")


def write_json(report: object, file: Path | None) -> None:
    """Write the report there: into a file, to standard output for `-`, nowhere for None."""
    if file is None:
        return
    encoded = msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"
    if file == STANDARD_OUTPUT:
        sys.stdout.write(encoded.decode())
    else:
        file.write_bytes(encoded)
