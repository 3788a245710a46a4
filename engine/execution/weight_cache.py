"""Packed weights in the user's cache directory: made once for each machine, shared by its engines.

What is packed takes as much memory as the weights themselves. In a file that every engine maps, it
takes that once, however many engines there are, and a start has nothing to pack.
"""

import contextlib
import errno
import fcntl
import hashlib
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType, TracebackType
from typing import IO, Self

import torch

from engine.execution.weight_file import BadWeightFile, WeightFile, WeightFileWriter

KEPT_FILES = 4
"""Of the most recently used models, with their kinds of packing; older ones are removed."""
KEPT_FREE_BYTES = 2 * 1024**3
"""What a file of weights leaves free on its disk."""
LEAST_BYTES = 64 * 1024**2
"""Less is packed before a file would be read."""
WAIT_SECONDS = 60.0
"""How long an engine waits for another one that packs; after that it packs for itself."""

_POLL_SECONDS = 0.05
_FORMAT = "1"

_log = logging.getLogger(__name__)


class WeightCache:
    """The tensors of one model in one layout, by name. Used by one thread, as a context manager.

    `get` gives what is there. What is not, the caller makes and `put`s; what that gives back is to
    be used in its place. A file appears at the end of the block, whole or not at all, and not if the
    block raises. Where nothing can be kept, `get` gives nothing and `put` what it was given.
    """

    def __init__(
        self, weights: WeightFile | None = None, draft: "WeightDraft | None" = None
    ) -> None:
        self._weights = weights
        self._draft = draft

    @classmethod
    def open(cls, fingerprint: str, layout: str, expected_bytes: int) -> Self:
        """The cache of a model; of engines that start at once, one is to fill it, the others wait.

        `fingerprint` tells weights apart, to the last bit, and `layout` everything else that the
        tensors depend on; together they take some `expected_bytes`. Never raises: a cache that
        cannot be used is a line in the log, and one that is not worth a file is none.
        """
        if expected_bytes < LEAST_BYTES:
            return cls()
        try:
            path = cache_directory() / f"{_key(fingerprint, layout)}.weights"
            return cls._open(path)
        except (OSError, RuntimeError) as error:  # a user id that nobody has given a home
            _log.warning("packed weights are not shared between engines: %s", error)
            return cls()

    @classmethod
    def _open(cls, path: Path) -> Self:
        weights = _read(path)
        if weights is not None:
            return cls(weights)
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            lock = stack.enter_context((path.parent / "lock").open("w"))
            if not _acquire(lock, WAIT_SECONDS):
                _log.warning("packed weights are not shared: another engine takes too long")
                return cls()
            weights = _read(path)  # another engine may have made it meanwhile
            if weights is not None:
                return cls(weights)
            _make_room(path.parent)
            draft = WeightDraft(path, lock)
            stack.pop_all()  # the draft's to close
            return cls(draft=draft)

    def get(self, name: str) -> torch.Tensor | None:
        """The tensor of that name, which must not be written to; None if it is not there."""
        return None if self._weights is None else self._weights.tensor(name)

    def put(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Keep a tensor: the same numbers in shared memory, or the tensor itself if that fails."""
        if self._draft is None:
            return tensor
        try:
            return self._draft.append(name, tensor)
        except OSError as error:
            _log.warning("packed weights are not shared between engines: %s", error)
            self._draft.discard()
            self._draft = None
            return tensor

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        draft, self._draft = self._draft, None
        if draft is None:
            return
        try:
            if kind is None:
                draft.publish()
        except OSError as failure:
            _log.warning("packed weights are not shared between engines: %s", failure)
        finally:
            draft.discard()


class WeightDraft:
    """A file in the making, of whoever holds the folder's lock."""

    def __init__(self, path: Path, lock: IO[str]) -> None:
        """Takes the lock over, unless it raises OSError."""
        self._path = path
        descriptor, name = tempfile.mkstemp(".draft", dir=path.parent)
        self._draft_path = Path(name)
        self._file = os.fdopen(descriptor, "w+b")
        self._lock = lock
        self._writer = WeightFileWriter(self._file)

    def append(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor as the file holds it. Raises OSError, also if the disk is nearly full."""
        if shutil.disk_usage(self._path.parent).free < tensor.nbytes + KEPT_FREE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path.parent))
        return self._writer.append(name, tensor)

    def publish(self) -> None:
        """Let the file appear under its name, if there is anything in it. Raises OSError."""
        if not self._writer.is_empty:
            self._writer.finish()
            self._draft_path.replace(self._path)

    def discard(self) -> None:
        """Remove what was not published, and let other engines go on; what is mapped stays valid."""
        self._draft_path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # what could not be written is not to be written now
            self._file.close()
        self._lock.close()  # the kernel does that too if this process dies


def cache_directory() -> Path:
    """Where the files are. Raises RuntimeError for a user without a home."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "quadriga" / "weights"


def source_digest(modules: Iterable[ModuleType]) -> str:
    """A short text that changes with the source of the modules, for the layout that they make."""
    digest = hashlib.blake2b(digest_size=16)
    for module in modules:
        assert module.__file__ is not None, module
        digest.update(Path(module.__file__).read_bytes())
    return digest.hexdigest()


def _key(fingerprint: str, layout: str) -> str:
    parts = (_FORMAT, sys.byteorder, fingerprint, layout)
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def _read(path: Path) -> WeightFile | None:
    """The file, if it is there and whole; it counts as used now."""
    try:
        weights = WeightFile(path)
    except FileNotFoundError:
        return None
    except BadWeightFile as error:
        _log.warning("%s is made again: %s", path, error)
        return None
    with contextlib.suppress(OSError):  # it may be somebody else's
        os.utime(path)
    return weights


def _acquire(lock: IO[str], seconds: float) -> bool:
    """Take the lock, waiting for it: not for ever, since whoever holds it may hang."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        else:
            return True


def _make_room(directory: Path) -> None:
    """Remove what dead engines have left unfinished, and all but the newest files. Under the lock."""
    for draft in directory.glob("*.draft"):
        draft.unlink(missing_ok=True)
    by_use = sorted(directory.glob("*.weights"), key=lambda path: path.stat().st_mtime)
    for path in by_use[: max(0, len(by_use) - KEPT_FILES + 1)]:
        path.unlink(missing_ok=True)  # whoever has mapped it keeps it
