"""Compiling the CPU kernels, once for each machine, into the user's cache directory."""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCES = Path(__file__).with_name("kernels")
# Without contraction a multiply-add is fused where the source says so, and in no tile otherwise.
_FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-fopenmp", "-shared", "-fPIC")
_COMPILE_TIMEOUT_SECONDS = 120


class NoCompiler(Exception):
    """The kernels could not be built here; the text says why."""


def built_library() -> Path:
    """The compiled kernels, from the cache or built now.

    The file is named after everything that it depends on, and appears whole or not at all. Of
    engines that start at once, one builds and the others wait for it. Raises NoCompiler.
    """
    compiler = shutil.which(os.environ.get("CC") or "cc") or shutil.which("gcc")
    if compiler is None:
        raise NoCompiler("there is no C compiler (cc or gcc)")
    library = _cache_directory() / f"cpu_native-{_build_key(compiler)}.so"
    if not library.exists():
        _compile(compiler, library)
    return library


def _cache_directory() -> Path:
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:  # a user id that nobody has given a home
        raise NoCompiler(f"there is no place to keep the kernels: {error}") from error
    return Path(base) / "quadriga" / "kernels"


def _build_key(compiler: str) -> str:
    version = _run([compiler, "--version"])
    sources = [path.read_text() for path in sorted(SOURCES.iterdir())]
    parts = (*sources, version, _cpu_features(), *_FLAGS)
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=10).hexdigest()


def _cpu_features() -> str:
    """What -march=native depends on; a cache directory may be shared by different machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine() + platform.processor()
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(wanted)}))


def _compile(compiler: str, library: Path) -> None:
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        with (
            library.with_suffix(".lock").open("w") as lock,
            tempfile.TemporaryDirectory(dir=library.parent) as directory,
        ):
            fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel frees it if this process dies
            if library.exists():
                return
            output = Path(directory) / library.name
            _run([compiler, *_FLAGS, str(SOURCES / "cpu_native.c"), "-o", str(output), "-lm"])
            output.replace(library)
    except OSError as error:
        raise NoCompiler(f"{library.parent} cannot be written: {error}") from error


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoCompiler(f"{command[0]} did not run: {error}") from error
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise NoCompiler(f"{command[0]} failed: {reason}")
    return done.stdout
