"""The files of this repository, as the tests about its shape read them."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("frontend", "engine", "coordinator")


def files() -> list[Path]:
    """Every file that is in git or could be added to it: build outputs are left out."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = (ROOT / name for name in listed.split("\0") if name)
    return [path for path in paths if path.is_file()]


def modules(package: str) -> list[str]:
    """The dotted name of every module below a package such as `engine` or `cluster.launch`."""
    folder = ROOT.joinpath(*package.split("."))
    names = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def documents() -> list[Path]:
    """Every page for people."""
    return [path for path in files() if path.suffix == ".md"]


def code_lines(document: Path) -> list[str]:
    """The lines in a page's code blocks, those that end in a backslash joined with the next."""
    lines: list[str] = []
    is_code = continues = False
    for line in document.read_text().splitlines():
        if line.lstrip().startswith("```"):
            is_code, continues = not is_code, False
        elif is_code:
            if continues:
                lines[-1] += line.strip().removesuffix("\\")
            else:
                lines.append(line.strip().removesuffix("\\"))
            continues = line.rstrip().endswith("\\")
    return lines
