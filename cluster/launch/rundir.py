"""The run directory: config, sockets, logs and state of one cluster, for as long as it lives.

A launcher holds a lock in its directory for life. The kernel lets go of it however the launcher
ends, so a directory whose lock is free is a leftover: the next launcher removes it.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from cluster.errors import ConfigError
from cluster.wire.endpoints import Endpoints

LONGEST_SOCKET_PATH_BYTES = 99
"""The kernel's limit is 107; a margin is left for incarnations of many digits."""

_LOCK_NAME = "launcher.lock"
_ROOT_LOCK_NAME = ".lock"


def runs_root(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder in which this user's clusters have their run directories."""
    runtime = environment.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Path(runtime) / "quadriga"
    return Path(tempfile.gettempdir()) / f"quadriga-{os.geteuid()}"


class RunDirectory:
    """The folder of one running cluster, locked by this process until `remove`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def create(
        cls, cluster_id: str | None, num_frontends: int, root: Path | None = None
    ) -> "RunDirectory":
        """A fresh folder under `root`, after what dead launchers left there was removed.

        Raises ConfigError if a cluster of that name is running, or the folder cannot be used.
        """
        root = root or runs_root()
        path = root / (cluster_id or secrets.token_hex(3))
        _check_socket_paths(path, num_frontends)
        _make_private(root)
        try:
            with _root_locked(root):
                _sweep(root)
                return cls(path, _make_run(path))
        except OSError as error:
            raise ConfigError(
                f"the run directory {path} cannot be made: {error.strerror}"
            ) from None

    @property
    def cluster_id(self) -> str:
        """The cluster's name."""
        return self.path.name

    @property
    def config_path(self) -> Path:
        """The resolved configuration, which every child reads."""
        return self.path / "cluster.json"

    @property
    def metrics_directory(self) -> Path:
        """Where every process writes its metrics."""
        return self.path / "metrics"

    def log_path(self, process_name: str) -> Path:
        """The log of a process, e.g. of `engine-3`."""
        return self.path / "logs" / f"{process_name}.log"

    def save_state(self, state: bytes) -> None:
        """Let `state.json` show this, whole at any moment. Raises OSError, on a full disk say."""
        fresh = self.path / "state.new"
        fresh.write_bytes(state)
        fresh.replace(self.path / "state.json")

    def replace_config(self, write: Callable[[Path], None]) -> None:
        """Let `write` make a new `cluster.json`, whole at any moment. Raises OSError."""
        fresh = self.path / "cluster.new"
        write(fresh)
        fresh.replace(self.config_path)

    def check_sockets(self, num_frontends: int) -> None:
        """Raises ConfigError if the paths of so many frontends' sockets would be too long."""
        _check_socket_paths(self.path, num_frontends)

    def remove_sockets(self, prefix: str) -> None:
        """Remove the socket files that a dead process left behind."""
        for path in self.path.glob(f"{prefix}*"):
            if path.is_socket():
                path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder and let go of its lock."""
        # Locked, or a successor of the same name could begin in the folder that is being removed.
        with contextlib.suppress(OSError), _root_locked(self.path.parent):
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def live_runs(root: Path | None = None) -> list[Path]:
    """The run directories under `root` whose launcher is alive, by name."""
    root = root or runs_root()
    if not root.is_dir():
        return []
    with _root_locked(root):
        return [path for path in sorted(root.iterdir()) if path.is_dir() and _is_live(path)]


def _check_socket_paths(path: Path, num_frontends: int) -> None:
    address = Endpoints(path).frontend(num_frontends - 1, 9999).requests.removeprefix("ipc://")
    if len(os.fsencode(address)) > LONGEST_SOCKET_PATH_BYTES:
        raise ConfigError(
            f"the run directory {path} is too long for sockets: {address} has "
            f"{len(os.fsencode(address))} bytes, the limit is {LONGEST_SOCKET_PATH_BYTES}; set "
            "XDG_RUNTIME_DIR to a short folder, or shorten --cluster-id"
        )


def _make_private(root: Path) -> None:
    """Make `root` a folder that only this user can enter. Raises ConfigError if it is not ours."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = root.lstat()
    except OSError as error:
        raise ConfigError(f"the run directory {root} cannot be made: {error.strerror}") from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise ConfigError(f"{root} is not a folder of this user: remove it, or set XDG_RUNTIME_DIR")
    if stat.S_IMODE(status.st_mode) != 0o700:
        root.chmod(0o700)


@contextlib.contextmanager
def _root_locked(root: Path) -> Iterator[None]:
    """Keep other launchers out while directories come and go; held for a moment only."""
    lock = os.open(root / _ROOT_LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _make_run(path: Path) -> int:
    """Make a run directory and return the lock that is held on it."""
    if path.exists():
        raise ConfigError(
            f"--cluster-id {path.name} is running already: `cluster stop --cluster {path.name}` "
            "ends it"
        )
    for folder in (path, path / "logs", path / "metrics"):
        folder.mkdir(mode=0o700)
    lock = os.open(path / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return lock


def _sweep(root: Path) -> None:
    for path in root.iterdir():
        if path.is_dir() and not path.is_symlink() and not _is_live(path):
            shutil.rmtree(path, ignore_errors=True)


def _is_live(path: Path) -> bool:
    """Whether a launcher holds this directory. Only to be asked while the root is locked."""
    try:
        lock = os.open(path / _LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
