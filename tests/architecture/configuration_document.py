"""docs/configuration.md, made from the settings: `python -m tests.architecture.configuration_document`."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from cluster.launch.settings import Setting, list_settings
from tests.architecture.repository import ROOT

PATH = ROOT / "docs/configuration.md"
INTRODUCTION = """\
# Configuration

Every setting is a flag of `launch`, a key in a TOML file (`launch --config cluster.toml`) and an
environment variable. Where several give a value, the command line goes before the environment, the
environment before the file, and the file before the default.

This page is generated from `cluster/config.py`; a test holds the two equal. After a change there:
`python -m tests.architecture.configuration_document`.
"""


def render() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for section, settings in groupby(list_settings(), key=lambda setting: setting.section):
        parts.append("\n".join(_section(section, list(settings))))
    return "\n".join(parts)


def _section(section: str, settings: list[Setting]) -> Iterator[str]:
    yield f"## {settings[0].heading}: `[{section}]`"
    for setting in settings:
        flags = list(setting.flags)
        if setting.is_switch:
            flags.append("--no-" + setting.name.replace("_", "-"))
        yield ""
        yield f"### `{setting.name}`"
        yield ""
        yield setting.description
        yield ""
        yield f"- flag: {', '.join(f'`{flag}`' for flag in flags)}"
        yield f"- environment: `{setting.variable}`"
        yield f"- value: {setting.limit}"
        yield f"- default: {_default(setting.default)}"
    yield ""


def _default(value: Any) -> str:
    match value:
        case None:
            return "worked out at start"
        case True | False:
            return f"`{str(value).lower()}`"
        case []:
            return "none"
        case _:
            return f"`{value}`"


if __name__ == "__main__":
    PATH.write_text(render())
