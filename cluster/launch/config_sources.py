"""Where settings come from, and the configuration that they come to.

A setting's value comes from the last of these that gives one: its default, the TOML file, the
environment (`QUADRIGA_<FIELD>`), the command line.
"""

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from cluster.config import ClusterConfig
from cluster.errors import ConfigError
from cluster.launch.settings import ENVIRONMENT_PREFIX, list_settings
from cluster.telemetry.process import LIFELINE_VARIABLE


def read_settings_file(path: Path) -> dict[str, Any]:
    """The values in a TOML file with one table a section, by field name.

    Raises ConfigError if it cannot be read, or holds anything that is not a setting.
    """
    try:
        tables = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config {path} cannot be read: {_reason(error)}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"--config {path} is not TOML: {error}") from None
    settings = {(setting.section, setting.name): setting for setting in list_settings()}
    sections = sorted({section for section, _ in settings})
    values: dict[str, Any] = {}
    for section, table in tables.items():
        if section not in sections or not isinstance(table, dict):
            raise ConfigError(f"{path}: {section!r} is not a table of {', '.join(sections)}")
        for name, value in table.items():
            setting = settings.get((section, name))
            if setting is None:
                hint = suggest(name, [known for _, known in settings])
                raise ConfigError(f"{path}: [{section}] has no setting {name!r}{hint}")
            values[name] = setting.check(value, f"{path}: {section}.{name}")
    return values


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8"


def suggest(unknown: str, known: list[str]) -> str:
    """` (did you mean …?)`, or nothing if nothing known is like it."""
    close = difflib.get_close_matches(unknown, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def read_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """The values in `QUADRIGA_*` variables, by field name; lists are separated by commas.

    Raises ConfigError for a value that is out of its limits.
    """
    return {
        setting.name: setting.parse(environment[setting.variable], setting.variable)
        for setting in list_settings()
        if setting.variable in environment
    }


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """`QUADRIGA_*` variables that set nothing: most likely a slip of the pen."""
    known = {setting.variable for setting in list_settings()} | {LIFELINE_VARIABLE}
    return sorted(
        variable
        for variable in environment
        if variable.startswith(ENVIRONMENT_PREFIX) and variable not in known
    )


def resolve_config(*layers: Mapping[str, Any]) -> ClusterConfig:
    """The configuration in which each later layer of checked values overrides the earlier ones."""
    values: dict[str, Any] = {}
    for layer in layers:
        values |= layer
    sections: dict[str, dict[str, Any]] = {}
    for setting in list_settings():
        if setting.name in values:
            sections.setdefault(setting.section, {})[setting.name] = values[setting.name]
    return msgspec.convert(sections, ClusterConfig)
