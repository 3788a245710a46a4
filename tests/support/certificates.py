"""Certificates for tests, made by the `openssl` command."""

import subprocess
from pathlib import Path
from typing import NamedTuple

SUBJECT = "/CN=quadriga-test"


class Certificate(NamedTuple):
    """A self-signed certificate for this machine, which is its own authority."""

    certfile: Path
    keyfile: Path


def make_certificate(folder: Path, name: str = "server", password: str = "") -> Certificate:
    """A fresh one, its key encrypted where a password is given."""
    certfile, keyfile = folder / f"{name}.pem", folder / f"{name}-key.pem"
    encryption = ["-passout", f"pass:{password}"] if password else ["-nodes"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-keyout", str(keyfile), "-out", str(certfile), "-days", "2", "-subj", SUBJECT,
         "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", *encryption],
        check=True, capture_output=True, timeout=30,
    )  # fmt: skip
    return Certificate(certfile, keyfile)
