"""The wiring diagram: every socket of the cluster, who binds it, and what travels on it.

    link       binds              connects                         travels
    requests   frontend ROUTER    every engine's DEALER            FrontendToEngine  / EngineToFrontend
    outputs    frontend PULL      every engine's PUSH              EngineToFrontend
    reports    coordinator PULL   PUSH of engines, frontends and   ToCoordinator
                                  the launcher
    view       coordinator XPUB   SUB of engines, frontends and    FromCoordinator
                                  the launcher
    control    launcher ROUTER    DEALER of the `cluster` command  ControlRequest / ControlReply
                                  and of frontends

Frontend addresses carry the incarnation: what was queued for a dead frontend never reaches its
successor. The coordinator's do not, so that everybody finds a new coordinator where the old one was.
Hellos and goodbyes travel on `requests` (they tell the ROUTER who is there) and on `outputs`.
"""

from pathlib import Path
from typing import NamedTuple

VIEW_TOPIC = b"view"
BLOCKS_TOPIC = b"blocks"


class FrontendEndpoints(NamedTuple):
    """Where one incarnation of a frontend listens."""

    requests: str
    outputs: str


class Endpoints:
    """The addresses of one cluster on one machine: ipc sockets in its run directory."""

    def __init__(self, run_directory: str | Path) -> None:
        self._base = f"ipc://{run_directory}"

    @property
    def reports(self) -> str:
        """The coordinator's PULL."""
        return f"{self._base}/reports"

    @property
    def view(self) -> str:
        """The coordinator's XPUB."""
        return f"{self._base}/view"

    @property
    def control(self) -> str:
        """The launcher's ROUTER."""
        return f"{self._base}/control"

    def frontend(self, index: int, incarnation: int) -> FrontendEndpoints:
        """A frontend's ROUTER and PULL."""
        name = f"{self._base}/f{index}.{incarnation}"
        return FrontendEndpoints(f"{name}.requests", f"{name}.outputs")
