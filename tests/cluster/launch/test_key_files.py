"""Files with keys: what is a key in them, and what makes `launch` refuse one without showing it."""

from pathlib import Path

import msgspec
import pytest

from cluster.config import FrontendConfig
from cluster.errors import ConfigError
from cluster.launch.key_files import with_keys_of_files


def test_each_line_is_a_key_but_comments_and_empty_ones(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# of the first team\nfirst\n\n  second \n\t# third\n")
    found = with_keys_of_files(FrontendConfig(api_key=["given"], api_key_file=str(file)))
    assert found.api_key == ["given", "first", "second"]
    assert found.admin_key == []


def test_admin_keys_have_a_file_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("root#1\r\n")
    found = with_keys_of_files(FrontendConfig(admin_key_file=str(file)))
    assert (found.api_key, found.admin_key) == ([], ["root#1"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file"),
        (b"", "holds no key"),
        (b"# nothing\n\n", "holds no key"),
        (b"\xff\xfe", "not UTF-8"),
        (b"fine\nname: secret\n", "line 2: a key must not contain spaces"),
    ],
)
@pytest.mark.parametrize("flag", ["--api-key-file", "--admin-key-file"])
def test_a_file_without_use_is_refused_by_its_flag(
    tmp_path: Path, flag: str, content: bytes | None, words: str
) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)
    field = flag.removeprefix("--").replace("-", "_")
    settings = msgspec.convert({field: str(file)}, FrontendConfig)
    with pytest.raises(ConfigError) as caught:
        with_keys_of_files(settings)
    assert f"{flag} {file}" in str(caught.value)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_folder_is_no_file_with_keys(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        with_keys_of_files(FrontendConfig(api_key_file=str(tmp_path)))
