"""Where `make clients` puts other people's programs, and where a test finds them."""

import shutil
from pathlib import Path

import pytest

from tests.architecture.repository import ROOT

CACHE = ROOT / ".clients"
REQUIREMENTS = ROOT / "tests/clients/requirements"
SYSTEM_FOLDERS = "/usr/sbin:/usr/local/sbin"
"""Servers lie here, and are not on everybody's path."""


def installed_python(client: str) -> Path:
    """The interpreter of a client's own environment; the test is skipped where there is none."""
    python = CACHE / client / "bin/python"
    if not python.exists():
        pytest.skip(f"{client} is not installed: make clients")
    return python


def installed_node_folder() -> Path:
    """The folder with npm's packages; the test is skipped where there is none."""
    if shutil.which("node") is None:
        pytest.skip("node is not to be had here")
    folder = CACHE / "node"
    if not (folder / "node_modules/openai").exists():
        pytest.skip("openai for node is not installed: make clients")
    return folder


def server_binary(name: str) -> Path:
    """HAProxy or nginx, the system's before the one of `make clients`; skipped where there is none."""
    system = shutil.which(name) or shutil.which(name, path=SYSTEM_FOLDERS)
    if system is not None:
        return Path(system)
    for found in (CACHE / name).glob(f"lib/python*/site-packages/*/bin/**/{name}"):
        return found
    pytest.skip(f"{name} is not to be had here: neither the system's nor that of make clients")
