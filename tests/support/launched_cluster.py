"""A cluster started by the real `launch` command, for tests that speak HTTP and kill processes."""

from collections.abc import Sequence
from typing import Any

import httpx

from loadtests.drills.cluster import Cluster, sum_samples

__all__ = ["LaunchedCluster", "embedded_model", "sum_samples"]


class LaunchedCluster(Cluster):
    """The cluster of the drills, answering with httpx's responses."""

    def wait_until_ready(self, seconds: float = 120.0) -> "LaunchedCluster":
        """Return once every process is ready."""
        super().wait_until_ready(seconds)
        return self

    # httpx's responses say the same as the drills' own, and more, which tests look at.

    def get(self, path: str, **headers: str) -> httpx.Response:  # type: ignore[override]
        """GET over a connection of its own, answered by any frontend."""
        return httpx.get(self.url + path, headers=headers, timeout=30, trust_env=False)

    def post(self, path: str, **body: Any) -> httpx.Response:  # type: ignore[override]
        """POST a JSON body over a connection of its own."""
        return httpx.post(self.url + path, json=body, timeout=60, trust_env=False)


def embedded_model() -> Sequence[str]:
    """Flags for a small cluster of the embedded model, which `launch` converts at its first use."""
    return ["--kv-cache-memory=256MiB", "--max-model-len=2048"]
