"""HAProxy or nginx in a process of its own, with the configuration that is shipped."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import httpx

from tests.architecture.repository import ROOT
from tests.clients.installed import server_binary
from tests.clients.ports import free_ports
from tests.support.waiting import wait_until

BalancerName = Literal["haproxy", "nginx"]

CONFIGURATIONS = {"haproxy": "haproxy.cfg", "nginx": "nginx.conf"}
SHIPPED_SERVERS = ("127.0.0.1:8000", "127.0.0.1:8001")
SHIPPED_ADDRESS = "127.0.0.1:8080"
SHIPPED_STATISTICS = "127.0.0.1:8404"
TEMPORARY_FOLDERS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


class Balancer:
    """Balances over these servers. Only addresses and folders differ from the shipped file."""

    def __init__(self, name: BalancerName, servers: Sequence[str], directory: Path) -> None:
        """`servers` are two addresses; `directory` is its own."""
        self._name = name
        self._directory = directory
        self._binary = server_binary(name)
        self._port, self._statistics_port = free_ports(2)
        self._configuration = directory / CONFIGURATIONS[name]
        self._configuration.write_text(self._text(servers))
        self._log_path = directory / "log"

    def _text(self, servers: Sequence[str]) -> str:
        text = (ROOT / "deploy" / CONFIGURATIONS[self._name]).read_text()
        own = {SHIPPED_ADDRESS: f"127.0.0.1:{self._port}",
               SHIPPED_STATISTICS: f"127.0.0.1:{self._statistics_port}",
               **dict(zip(SHIPPED_SERVERS, servers, strict=True))}  # fmt: skip
        for shipped, address in own.items():
            text = text.replace(shipped, address)
        if self._name == "nginx":
            folders = "".join(
                f"    {kind}_temp_path {self._directory}/{kind};\n" for kind in TEMPORARY_FOLDERS
            )
            text = text.replace("http {\n", "http {\n" + folders)
        return text

    def _command(self, *, is_check: bool) -> list[str]:
        if self._name == "haproxy":
            return [str(self._binary), "-c" if is_check else "-db", "-f", str(self._configuration)]
        # Its workers give up root, which owns the test's folder.
        user = "user root; " if os.geteuid() == 0 else ""
        directives = f"daemon off; {user}pid {self._directory}/pid; error_log stderr;"
        check = ["-t"] if is_check else []
        return [str(self._binary), *check, "-p", str(self._directory),
                "-c", str(self._configuration), "-e", "stderr", "-g", directives]  # fmt: skip

    @property
    def url(self) -> str:
        """Where clients ask."""
        return f"http://127.0.0.1:{self._port}"

    def check(self) -> str:
        """What the program says of its configuration. Raises CalledProcessError if it refuses it."""
        checked = subprocess.run(
            self._command(is_check=True), capture_output=True, text=True, check=True
        )
        return checked.stdout + checked.stderr

    def __enter__(self) -> "Balancer":
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                self._command(is_check=False), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        wait_until(self._answers, 30)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)

    def _answers(self) -> bool:
        assert self._process.poll() is None, self._log_path.read_text()
        try:
            return httpx.get(f"{self.url}/ready", timeout=5, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def server_states(self) -> dict[str, str]:
        """HAProxy's word for the state of each server."""
        table = httpx.get(f"http://127.0.0.1:{self._statistics_port}/;csv", trust_env=False).text
        names, *rows = (line.split(",") for line in table.removeprefix("# ").splitlines() if line)
        records = [dict(zip(names, row, strict=False)) for row in rows]
        return {
            record["svname"]: record["status"]
            for record in records
            if record["pxname"] == "quadriga" and record["svname"] != "BACKEND"
        }
