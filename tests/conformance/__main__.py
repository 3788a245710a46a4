"""`make schemathesis`: a cluster is asked everything that its own OpenAPI document allows, and forbids.

`python -P -m tests.conformance BIN`, where BIN is a folder with the programs of `requirements.txt`.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from frontend.openapi.operation import EVENTS
from tests.support.launched_cluster import LaunchedCluster

KEY, ADMIN_KEY = "key", "admin"
CLUSTER = (
    *("--engine=simulated", "--dp=1", "--frontends=1", "--simulated-step-seconds=0.001"),
    *("--kv-cache-memory=64MiB", "--max-model-len=512", "--queue-timeout=5"),
    *(f"--api-key={KEY}", f"--admin-key={ADMIN_KEY}"),
)
NUM_EXAMPLES = 30
SEED = 1
# What drains, restarts or resizes the cluster under test would end the test.
EXCLUDED_PATHS = "^/cluster/(drain|restart|scale)$"
EXCLUDED_CHECKS = {
    "positive_data_acceptance": "what is allowed depends on the model and on other fields too, and 1.0 "
    "is no integer here",
}


def main() -> int:
    """The exit status of the first program that finds a fault; 0 if none does."""
    programs = Path(sys.argv[1]).resolve()
    cluster = LaunchedCluster(*CLUSTER)
    try:
        url = cluster.wait_until_ready().url
        with tempfile.TemporaryDirectory() as folder:
            served, adapted = Path(folder) / "served.json", Path(folder) / "adapted.json"
            served.write_bytes(cluster.get("/openapi.json").content)
            model = cluster.get("/v1/models", Authorization=f"Bearer {KEY}").json()["data"][0]["id"]
            adapted.write_text(json.dumps(_adapted(json.loads(served.read_text()), model)))
            commands: list[list[str]] = [
                [str(programs / "openapi-spec-validator"), str(served)],
                [str(programs / "schemathesis"), "run", str(adapted), *_options(url)],
            ]
            return next(filter(None, (subprocess.call(c, cwd=folder) for c in commands)), 0)
    finally:
        cluster.close()


def _adapted(document: dict[str, Any], model: str) -> dict[str, Any]:
    """The same, of a server of this model, so that requests get as far as an engine."""
    for schema in document["components"]["schemas"].values():
        field = schema.get("properties", {}).get("model", {})
        for form in field.get("anyOf", [field]):
            if form.get("type") == "string":
                form["const"] = model
    for operations in document["paths"].values():
        for operation in operations.values():
            for body in operation.get("requestBody", {}).get("content", {}).values():
                if "model" in body.get("example", {}):
                    body["example"]["model"] = model
            # The schema of a stream is read as that of one event.
            stream = operation["responses"].get("200", {}).get("content", {}).get(EVENTS)
            if stream is not None:
                stream["schema"] = {"type": "object", "required": ["data"]}
    return document


def _options(url: str) -> list[str]:
    return [
        *(f"--url={url}", f"--header=Authorization: Bearer {ADMIN_KEY}"),
        *("--checks=all", f"--exclude-checks={','.join(EXCLUDED_CHECKS)}"),
        *("--phases=examples,coverage,fuzzing", f"--max-examples={NUM_EXAMPLES}", f"--seed={SEED}"),
        *(f"--exclude-path-regex={EXCLUDED_PATHS}", "--generation-database=none"),
        *("--request-timeout=30", "--no-color", "--continue-on-failure", "--warnings=off"),
    ]


if __name__ == "__main__":
    sys.exit(main())
