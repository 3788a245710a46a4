"""A server of completions in a process of its own, of which a test chooses the faults.

It imports nothing of ours, so that it is there in a moment.
"""

import argparse
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SLEEPER = [sys.executable, "-c", "import time; time.sleep(1000)"]


class Handler(BaseHTTPRequestHandler):
    """Answers as many tokens as are asked for, at once."""

    models_status = 200

    def do_GET(self) -> None:
        """The list of models."""
        self._head(self.models_status)
        self.wfile.write(json.dumps({"data": [{"id": "tiny"}]}).encode())

    def do_POST(self) -> None:
        """A completion, as a stream."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._head(200)
        for event in events(body["max_tokens"]):
            self.wfile.write(f"data: {event}\n\n".encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing of requests."""

    def _head(self, status: int) -> None:
        self.send_response(status)
        self.end_headers()


def events(num_tokens: int) -> Iterator[str]:
    """The data of each event of a stream."""
    for i in range(num_tokens):
        finish_reason = "length" if i == num_tokens - 1 else None
        choice = {"index": 0, "text": "a", "token_ids": [i], "finish_reason": finish_reason}
        yield json.dumps({"choices": [choice]})
    usage = {"prompt_tokens": 1, "completion_tokens": num_tokens}
    yield json.dumps({"choices": [], "usage": usage})
    yield "[DONE]"


def say(words: str) -> None:
    """One line, at once."""
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def main() -> None:
    """Serve, or fail as told."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--models-status", type=int, default=200)
    parser.add_argument("--child", choices=["in-group", "apart"])
    parser.add_argument("--deaf", action="store_true", help="to SIGTERM")
    parser.add_argument("--fail", metavar="WORDS", help="say this and end with code 3")
    told = parser.parse_args()
    if told.fail is not None:
        say(told.fail)
        sys.exit(3)
    if told.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if told.child is not None:
        child = subprocess.Popen(SLEEPER, start_new_session=told.child == "apart")
        say(f"child {child.pid}.")
    Handler.models_status = told.models_status
    ThreadingHTTPServer(("127.0.0.1", told.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
