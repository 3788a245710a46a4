"""The import contracts of pyproject.toml hold, and cover every room."""

import subprocess
import sys
import tomllib
from pathlib import Path

from tests.architecture.repository import ROOMS, ROOT


def test_every_import_contract_is_kept() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    child = subprocess.run(
        [linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stdout + child.stderr
    assert " 0 broken" in child.stdout


def test_the_contracts_cover_every_package_of_the_wheel() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    packages = tools["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert sorted(packages) == sorted(["cluster", "loadtests", *ROOMS])
    assert sorted(tools["importlinter"]["root_packages"]) == sorted(packages)
