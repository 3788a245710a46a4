"""An engine does without torch's compiler, and what it computes is the same."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import transformers
from torch import nn

from engine.execution import loader
from engine.execution.lean_import import lean_construction
from engine.execution.loader import load_config, load_model
from tests.architecture.repository import ROOT
from tests.engine.execution.conftest import TinyModel
from tests.support.tiny_model import FAMILIES

HEAVY = ("torch._dynamo", "torch._inductor", "torch.distributed.tensor", "torch.distributed.fsdp",
         "sympy")  # fmt: skip
_START = """
import sys
from engine.execution.lean_import import import_transformers
import_transformers()
"""
_SERVE = """
from pathlib import Path
from tests.support.serving import generate, make_request, make_runner
print(generate(make_runner(Path(sys.argv[1])), make_request(range(3, 30)), 8))
"""


def run(script: str, *arguments: str) -> list[str]:
    """The lines that it prints, in an interpreter that has imported nothing yet."""
    child = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout.splitlines()


def load(directory: Path) -> nn.Module:
    return load_model(directory, load_config(directory), "auto", torch.device("cpu"))


def test_a_model_is_served_without_the_compiler_and_answers_the_same(tiny_model: TinyModel) -> None:
    show = f"print([name for name in {HEAVY} if name in sys.modules])"
    directory = str(tiny_model("llama"))
    answer, loaded = run(f"{_START}{_SERVE}{show}", directory)
    assert loaded == "[]"
    assert run(f"import sys\nimport torch._dynamo\n{_SERVE}", directory) == [answer]


def test_who_asks_for_the_compiler_later_gets_the_real_one() -> None:
    script = f"{_START}import torch; print(hasattr(torch._dynamo, 'optimize'))"
    assert run(script) == ["True"]


def test_a_release_that_needs_more_gets_it() -> None:
    spoil = """
import sys
from engine.execution import lean_import
lean_import._unchanged = None
lean_import.import_transformers()
import transformers.modeling_utils
print("sympy" in sys.modules)
"""
    assert run(spoil) == ["True"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_is_what_it_would_be_otherwise(
    family: str, tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    lean = load(tiny_model(family))
    monkeypatch.setattr(loader, "lean_construction", contextlib.nullcontext)
    full = load(tiny_model(family))
    for kind in ("named_parameters", "named_buffers"):
        expected = dict(getattr(full, kind)())
        found = dict(getattr(lean, kind)())
        assert found.keys() == expected.keys()
        for name, tensor in expected.items():
            assert found[name].dtype == tensor.dtype, name
            assert torch.equal(found[name], tensor), name


def test_a_model_that_cannot_be_built_so_is_built_as_usual(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[str] = []

    @contextlib.contextmanager
    def construction() -> Iterator[None]:
        attempts.append("lean")
        yield
        raise AttributeError("it needs more")

    monkeypatch.setattr(loader, "lean_construction", construction)
    assert isinstance(load(tiny_model("llama")), transformers.LlamaForCausalLM)
    assert attempts == ["lean"]


def test_afterwards_everything_is_as_it_was() -> None:
    def fail() -> None:
        with lean_construction():
            raise ValueError("a broken model")

    with pytest.raises(ValueError, match="a broken model"):
        fail()
    assert nn.Embedding(8, 8).weight.std() > 0.5
    with torch.device("meta"):
        assert torch.arange(3).is_meta
