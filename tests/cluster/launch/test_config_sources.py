"""Later sources win over earlier ones, and each refuses what is no setting."""

from pathlib import Path

import pytest

from cluster.config import ClusterConfig
from cluster.errors import ConfigError
from cluster.launch.config_sources import (
    read_environment,
    read_settings_file,
    resolve_config,
    unknown_variables,
)


def written(folder: Path, text: str) -> Path:
    path = folder / "cluster.toml"
    path.write_text(text)
    return path


def test_nothing_given_comes_to_the_defaults() -> None:
    assert resolve_config() == ClusterConfig()


def test_flags_win_over_environment_over_file(tmp_path: Path) -> None:
    file = written(tmp_path, "[frontend]\nport = 1\nrouting = 'random'\n[engine]\nblock_size = 8\n")
    environment = read_environment({"QUADRIGA_PORT": "2", "QUADRIGA_ROUTING": "round-robin"})
    config = resolve_config(read_settings_file(file), environment, {"port": 3})
    assert config.frontend.port == 3
    assert config.frontend.routing == "round-robin"
    assert config.engine.block_size == 8


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("port = 1", "'port' is not a table of"),
        ("[engines]\nblock_size = 8", "'engines' is not a table of"),
        ("[engine]\nblock_sise = 8", r"\[engine\] has no setting 'block_sise' \(did you mean block_size"),
        ("[engine]\nblock_size = 'x'", "engine.block_size must be a whole number from 1 to 256"),
        ("[engine", "is not TOML"),
        ("run_directory = '/'", "'run_directory' is not a table of"),
    ],
)  # fmt: skip
def test_a_wrong_settings_file_is_refused_in_one_line(
    tmp_path: Path, text: str, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        read_settings_file(written(tmp_path, text))


def test_a_settings_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_settings_file(tmp_path / "nowhere.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_settings_file(tmp_path / "binary.toml")


def test_slips_in_the_environment_are_noticed() -> None:
    environment = {"QUADRIGA_PROT": "1", "QUADRIGA_PORT": "1", "QUADRIGA_LIFELINE_FD": "3", "A": ""}
    assert unknown_variables(environment) == ["QUADRIGA_PROT"]
