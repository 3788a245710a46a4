"""Files with keys, read once by `launch`: keys in them are not shown where command lines are."""

from pathlib import Path

import msgspec

from cluster.config import FrontendConfig
from cluster.errors import ConfigError


def with_keys_of_files(frontend: FrontendConfig) -> FrontendConfig:
    """The settings with the keys of both files beside those that were given.

    Raises ConfigError, naming the flag, if a file cannot be used. It never quotes a line of it.
    """
    return msgspec.structs.replace(
        frontend,
        api_key=frontend.api_key + _read_keys(frontend.api_key_file, "--api-key-file"),
        admin_key=frontend.admin_key + _read_keys(frontend.admin_key_file, "--admin-key-file"),
    )


def _read_keys(file: str | None, flag: str) -> list[str]:
    if file is None:
        return []
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"{flag} {file} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, ValueError):
        raise ConfigError(f"{flag} {file} cannot be read: it is not UTF-8 text") from None
    keys = [_key(line, f"{flag} {file}, line {number}") for number, line in enumerate(lines, 1)]
    keys = [key for key in keys if key]
    if not keys:
        # Without keys all would be open, which whoever names a file does not want.
        raise ConfigError(f"{flag} {file} holds no key")
    return keys


def _key(line: str, where: str) -> str:
    key = line.strip()
    if key.startswith("#"):
        return ""
    if any(character.isspace() for character in key):
        raise ConfigError(f"{where}: a key must not contain spaces; there is one key a line")
    return key
