"""Packed weights are kept whole or not at all, and whatever goes wrong, engines have them."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from engine.execution import weight_cache
from engine.execution.weight_cache import (
    KEPT_FILES,
    LEAST_BYTES,
    WeightCache,
    cache_directory,
    source_digest,
)

PANELS = torch.arange(40 * 64 * 16).view(40, 64, 16).to(torch.bfloat16)
SCALE = torch.linspace(0.5, 1.0, 640)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the weights, in a cache directory of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return cache_directory()


def fill(fingerprint: str = "model", layout: str = "bfloat16") -> torch.Tensor:
    """What `put` gave back for the panels, in a cache that has them all now."""
    with WeightCache.open(fingerprint, layout, LEAST_BYTES) as cache:
        assert cache.get("panels") is None
        panels = cache.put("panels", PANELS)
        cache.put("scale", SCALE)
    return panels


def kept(fingerprint: str = "model", layout: str = "bfloat16") -> torch.Tensor | None:
    """The panels in the cache. Leaves no file behind if there is none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weight_cache, "KEPT_FREE_BYTES", 2**60)
        with WeightCache.open(fingerprint, layout, LEAST_BYTES) as cache:
            panels = cache.get("panels")
            if panels is None:
                cache.put("panels", PANELS)
            return panels


def suffixes(directory: Path) -> list[str]:
    """What kinds of files there are, without the lock."""
    return sorted(path.suffix for path in directory.iterdir() if path.name != "lock")


def mapping_of(tensor: torch.Tensor) -> str:
    """The line of /proc/self/maps in which the tensor lies."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(address, 16) for address in line.split()[0].split("-"))
        if begin <= tensor.data_ptr() < end:
            return line
    raise AssertionError("the tensor lies nowhere")


def test_what_one_engine_has_packed_the_next_one_gets(empty_cache: Path) -> None:
    fill()
    with WeightCache.open("model", "bfloat16", LEAST_BYTES) as cache:
        for name, expected in (("panels", PANELS), ("scale", SCALE)):
            tensor = cache.get(name)
            assert tensor is not None
            assert tensor.dtype == expected.dtype
            assert torch.equal(tensor, expected)
        assert cache.get("another") is None
    assert suffixes(empty_cache) == [".weights"]


def test_the_engine_that_packs_uses_the_memory_of_the_file_too(empty_cache: Path) -> None:
    packed, mapped = fill(), kept()
    assert mapped is not None
    assert torch.equal(packed, PANELS)
    for tensor in (packed, mapped):
        line = mapping_of(tensor)
        assert " r--s " in line
        assert line.endswith(str(next(empty_cache.glob("*.weights"))))


@pytest.mark.parametrize(("fingerprint", "layout"), [("other", "bfloat16"), ("model", "int8")])
def test_another_model_or_layout_has_its_own(fingerprint: str, layout: str) -> None:
    fill()
    assert kept(fingerprint, layout) is None
    assert kept() is not None


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _zero_a_page(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(4096) + content[8192:])


def _replace_by_another_file(path: Path) -> None:
    path.write_bytes(os.urandom(10_000))


@pytest.mark.parametrize("spoil", [_cut, _empty, _zero_a_page, _replace_by_another_file])
def test_a_file_that_is_not_as_it_was_is_made_again(
    spoil: Callable[[Path], None], empty_cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill()
    # A copy is spoilt: what is mapped must not change.
    (path,) = empty_cache.glob("*.weights")
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    spoil(path)
    fill()
    assert "is made again" in caplog.text
    panels = kept()
    assert panels is not None
    assert torch.equal(panels, PANELS)


def test_an_engine_that_fails_leaves_nothing(empty_cache: Path) -> None:
    def fail() -> None:
        with WeightCache.open("model", "bfloat16", LEAST_BYTES) as cache:
            cache.put("panels", PANELS)
            raise ValueError("the model is broken")

    with pytest.raises(ValueError, match="the model is broken"):
        fail()
    assert suffixes(empty_cache) == []
    fill()


def test_what_a_killed_engine_has_begun_is_removed(empty_cache: Path) -> None:
    empty_cache.mkdir(parents=True)
    (empty_cache / "abc.draft").write_bytes(b"some")
    fill()
    assert suffixes(empty_cache) == [".weights"]


def test_of_engines_that_start_at_once_one_packs_and_the_others_wait_for_it() -> None:
    got: list[torch.Tensor | None] = []
    has_begun = threading.Event()

    def follow() -> None:
        has_begun.set()
        with WeightCache.open("model", "bfloat16", LEAST_BYTES) as cache:
            got.append(cache.get("panels"))

    followers = [threading.Thread(target=follow) for _ in range(2)]
    with WeightCache.open("model", "bfloat16", LEAST_BYTES) as cache:
        for thread in followers:
            thread.start()
        assert has_begun.wait(10)
        cache.put("panels", PANELS)
        assert got == []
    for thread in followers:
        thread.join()
    assert len(got) == 2
    assert all(panels is not None and torch.equal(panels, PANELS) for panels in got)


def test_an_engine_that_hangs_while_it_packs_holds_up_no_other_for_ever(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(weight_cache, "WAIT_SECONDS", 0.1)
    with (
        WeightCache.open("model", "bfloat16", LEAST_BYTES),
        WeightCache.open("model", "bfloat16", LEAST_BYTES) as second,
    ):
        assert second.get("panels") is None
        assert second.put("panels", PANELS) is PANELS
    assert "another engine takes too long" in caplog.text


def test_without_a_place_for_files_everything_stays_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with WeightCache.open("model", "bfloat16", LEAST_BYTES) as cache:
        assert cache.put("panels", PANELS) is PANELS
    assert "not shared between engines" in caplog.text


def test_a_user_without_a_home_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    with WeightCache.open("model", "bfloat16", LEAST_BYTES) as cache:
        assert cache.put("panels", PANELS) is PANELS


def test_a_disk_that_gets_full_is_left_alone_and_what_is_mapped_stays(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with WeightCache.open("model", "bfloat16", LEAST_BYTES) as cache:
        first = cache.put("panels", PANELS)
        monkeypatch.setattr(weight_cache, "KEPT_FREE_BYTES", 2**60)
        assert cache.put("scale", SCALE) is SCALE
        assert cache.put("more", SCALE) is SCALE
    assert torch.equal(first, PANELS)
    assert "No space left" in caplog.text
    assert suffixes(empty_cache) == []
    assert kept() is None


def test_the_least_recently_used_models_go(empty_cache: Path) -> None:
    for number in range(KEPT_FILES):
        fill(f"model {number}")
        newest = max(empty_cache.glob("*.weights"), key=lambda path: path.stat().st_mtime)
        os.utime(newest, (1000 + number, 1000 + number))
    held = kept("model 0")  # which makes it the most recently used
    assert held is not None
    fill("one more")
    assert len(suffixes(empty_cache)) == KEPT_FILES
    assert kept("model 0") is not None
    assert kept("model 1") is None


def test_a_small_model_gets_no_file(empty_cache: Path) -> None:
    with WeightCache.open("model", "bfloat16", LEAST_BYTES - 1) as cache:
        assert cache.put("panels", PANELS) is PANELS
    assert not empty_cache.exists()


def test_an_engine_that_keeps_nothing_makes_no_file(empty_cache: Path) -> None:
    with WeightCache.open("model", "bfloat16", LEAST_BYTES) as cache:
        assert cache.get("panels") is None
    assert suffixes(empty_cache) == []


def test_what_is_mapped_outlives_its_file(empty_cache: Path) -> None:
    fill()
    panels = kept()
    next(empty_cache.glob("*.weights")).unlink()
    assert panels is not None
    assert torch.equal(panels, PANELS)


def test_the_digest_of_sources_changes_with_any_of_them(tmp_path: Path) -> None:
    modules = []
    for name in ("a", "b"):
        modules.append(ModuleType(name))
        modules[-1].__file__ = str(tmp_path / name)
        (tmp_path / name).write_text(name)
    before = source_digest(modules)
    assert source_digest(modules) == before
    (tmp_path / "b").write_text("changed")
    assert source_digest(modules) != before
