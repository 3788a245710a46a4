"""The compiled kernels are built once, whole, and their absence is no failure."""

import ctypes
import stat
import threading
from pathlib import Path

import pytest

from engine.execution import cpu_native
from engine.execution.native_build import NoCompiler, built_library
from engine.execution.paged_attention import TorchAttention
from tests.engine.execution.conftest import TinyModel
from tests.engine.execution.test_families import prompt
from tests.support.serving import generate, make_request, make_runner


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def write_compiler(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_engines_that_start_at_once_get_one_whole_library_built_once(empty_cache: Path) -> None:
    built: list[Path] = []
    threads = [threading.Thread(target=lambda: built.append(built_library())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert built == [built[0]] * 3
    assert {path.suffix for path in built[0].parent.iterdir()} == {".so", ".lock"}
    assert hasattr(ctypes.CDLL(str(built[0])), "linear")
    stamp = built[0].stat().st_mtime_ns
    assert built_library().stat().st_mtime_ns == stamp


def test_a_compiler_that_fails_is_named_with_its_words(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = write_compiler(
        empty_cache / "broken", 'test "$1" = --version || { echo out of order >&2; exit 1; }'
    )
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(NoCompiler, match="broken failed: out of order"):
        built_library()


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(NoCompiler, match="kernels cannot be written"):
        built_library()


def test_a_user_without_a_home_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(NoCompiler, match="no place to keep the kernels"):
        built_library()


def test_without_a_compiler_the_model_runs_in_plain_torch(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, tiny_model: TinyModel,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    native = generate(make_runner(tiny_model("llama"), "auto"), make_request(prompt(20)), 4)
    cpu_native._load.cache_clear()
    monkeypatch.setenv("PATH", str(empty_cache))
    runner = make_runner(tiny_model("llama"), "auto")
    assert isinstance(runner._model.attention, TorchAttention)
    assert generate(runner, make_request(prompt(20)), 4) == native
    assert [record.message for record in caplog.records if "plain torch" in record.message] == [
        "the model runs in plain torch, several times slower: there is no C compiler (cc or gcc)"
    ]
