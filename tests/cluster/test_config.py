from pathlib import Path
from typing import get_type_hints

import msgspec
import pytest

from cluster.config import (
    ClusterConfig,
    EngineConfig,
    Section,
    load_config,
    parse_bytes,
    save_config,
)

SECTIONS = [hint for hint in get_type_hints(ClusterConfig).values() if issubclass(hint, Section)]


@pytest.mark.parametrize(
    ("text", "size"),
    [("1048576", 2**20), ("512MiB", 2**29), ("4GiB", 2**32), ("1.5GB", 15 * 10**8)],
)
def test_sizes_are_read_with_their_units(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "0", "4 gigs", "1e"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is the caller's to word
        parse_bytes(text)


def test_field_names_are_unique_over_all_sections() -> None:
    names = [name for section in SECTIONS for name in section.__struct_fields__]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_every_field_has_a_description(section: type[Section]) -> None:
    for field in msgspec.json.schema(section)["$defs"][section.__name__]["properties"].values():
        assert field["description"].endswith((".", ")"))


def test_a_saved_configuration_is_read_back_whole(tmp_path: Path) -> None:
    config = ClusterConfig(engine=EngineConfig(data_parallel_size=3), run_directory=str(tmp_path))
    save_config(config, tmp_path / "cluster.json")
    assert load_config(tmp_path / "cluster.json") == config
    assert config.num_frontends == 3
