"""What must not be in any file: the machine it was written on."""

import re
from pathlib import Path

import pytest

from tests.architecture.repository import ROOT, files

MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|Users|home/(?!\$|<|user\b)\w+)/")
PRIVATE_HOST = re.compile(
    r"https?://(?:[\w.-]+@)?(?:[\w-]+\.)+(?:internal|intranet|corp|lan)\b"
    r"|https?://(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d+"
)
PACKAGE_INDEX = re.compile(r"index[-_]url\W{1,3}(?:https?://)?([\w.-]+)", re.IGNORECASE)
PUBLIC_INDEXES = {"download.pytorch.org", "pypi.org"}


def readable(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in files()
        for match in MACHINE_PATH.finditer(readable(path))
    ]
    assert not found


def test_no_file_names_a_private_host_or_package_index() -> None:
    for path in files():
        text = readable(path)
        assert not PRIVATE_HOST.search(text), path
        indexes = {match[1] for match in PACKAGE_INDEX.finditer(text) if "." in match[1]}
        assert indexes <= PUBLIC_INDEXES, path


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (MACHINE_PATH, "/".join(["see ", "work", "main"])),
        (MACHINE_PATH, "/".join(["(", "home", "anna", "x"])),
        (PRIVATE_HOST, "http://" + "packages.corp/simple"),
        (PRIVATE_HOST, "http://" + "10.0.0.7:8080"),
        (PACKAGE_INDEX, "--index-url" + " https://mirror.example.com/simple"),
    ],
)
def test_such_a_name_would_be_found(pattern: re.Pattern[str], text: str) -> None:
    assert pattern.search(text)


def test_every_test_folder_is_a_package() -> None:
    """Without that, tests/engine/ would be the package `engine` to pytest."""
    folders = {path.parent for path in files() if path.is_relative_to(ROOT / "tests")}
    python = {folder for folder in folders if list(folder.glob("*.py"))}
    assert all((folder / "__init__.py").exists() for folder in python)
