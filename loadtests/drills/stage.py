"""What a drill works with: a cluster, a load, a timeline, and the checks that it collects."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cluster.errors import ControlError
from loadtests.drills.bodies import Body, make_bodies
from loadtests.drills.checker import MayFail, check_history
from loadtests.drills.cluster import AttachedCluster, Cluster
from loadtests.drills.drill import DrillError
from loadtests.drills.history import Exchange, History
from loadtests.drills.load import Load
from loadtests.drills.observer import Sampler, dead_files, observe
from loadtests.drills.quiet import (
    ClusterState,
    check_idle,
    check_leftovers,
    check_metrics,
    is_idle,
)
from loadtests.drills.references import References
from loadtests.drills.sender import Sender
from loadtests.drills.verdict import Check, Figure, format_value

QUIET_POLL_SECONDS = 0.1
SIMULATED_FLAGS = ("--engine=simulated", "--kv-cache-memory=256MiB", "--max-model-len=4096")
MODEL_FLAGS = ("--kv-cache-memory=256MiB", "--max-model-len=2048")


class Stage:
    """Collects what a drill does and finds; a drill is a function of it."""

    def __init__(
        self, *, scale: float = 1.0, uses_model: bool = False, attached_url: str | None = None,
        cluster_id: str = "t", options: dict[str, float] | None = None,
    ) -> None:  # fmt: skip
        """`uses_model` puts the embedded model in place of simulated engines in every drill."""
        self.scale = scale
        self.uses_model = uses_model
        self.options = options or {}
        """Settings of single drills, from the command line: `minutes`, `kills`, `engines`."""
        self.history = History()
        self.checks: list[Check] = []
        self.figures: list[Figure] = []
        self._attached_url = attached_url
        self._cluster_id = cluster_id
        self._cluster: Cluster | None = None
        self._references = References()
        self._model_name = ""
        self._sampler: Sampler | None = None
        self._loads: list[Load] = []
        self._first_state: ClusterState | None = None
        self._first_exchange = 0
        self._first_sample = 0

    # ── the cluster ──

    @property
    def cluster(self) -> Cluster:
        """The one under test. Raises DrillError before `launch`."""
        if self._cluster is None:
            raise DrillError("no cluster has been launched")
        return self._cluster

    async def launch(
        self, *flags: str, engines: int = 2, frontends: int = 2, model: bool = False,
        any_length: bool = False, environment: dict[str, str] | None = None, directory: Path | None = None,
    ) -> Cluster:  # fmt: skip
        """A new cluster, ready, of simulated engines unless `model`; an earlier one is closed.

        With `any_length` its context is the model's own, or what the KV cache holds, if that is less.
        """
        await self._leave()
        if self._attached_url is not None:
            self._cluster = AttachedCluster(self._attached_url)
        else:
            kind: tuple[str, ...] = MODEL_FLAGS if model or self.uses_model else SIMULATED_FLAGS
            if any_length:
                kind = tuple(flag for flag in kind if not flag.startswith("--max-model-len"))
            self._cluster = Cluster(
                f"--dp={engines}", f"--frontends={frontends}", "--check-invariants", *kind, *flags,
                environment=environment, directory=directory, cluster_id=self._cluster_id,
            )  # fmt: skip
            await asyncio.to_thread(self._cluster.wait_until_ready)
        await self._begin()
        return self._cluster

    async def _begin(self) -> None:
        """Take what the cluster is now for its idle state."""
        self._first_exchange = len(self.history.exchanges)
        self._first_sample = len(self.history.samples)
        self._model_name = await self._find_model()
        if self._attached_url is None:
            self._first_state = await asyncio.to_thread(observe, self.cluster)
            self._sampler = Sampler(self.cluster, self.history)

    async def _find_model(self) -> str:
        answer = await asyncio.to_thread(self.cluster.get, "/v1/models")
        if answer.status != 200:
            raise DrillError(f"/v1/models answers {answer.status}: {answer.text}")
        return str(answer.json()["data"][0]["id"])

    # ── requests ──

    def sender(self, api_key: str | None = None, **options: Any) -> Sender:
        """Sends single requests into the history, with a key of its own."""
        return Sender(self.cluster.url, self.history, api_key or self.cluster.api_key, **options)

    async def ask(self, body: Body, *, api_key: str | None = None) -> Exchange:
        """Send one request and wait for the whole of its answer."""
        return await self.sender(api_key).send(
            body.kind, body.path, self._references.complete(body, self._model_name)
        )

    async def expect_undisturbed(
        self, kinds: Sequence[str] | None = None, output_tokens: int = 64
    ) -> list[Body]:
        """Record the fault-free answers to the bodies that `load` uses; `load` does so too.

        Raises DrillError if one cannot be had.
        """
        return await self.expect_answers(make_bodies(kinds, output_tokens))

    async def expect_answers(self, bodies: list[Body]) -> list[Body]:
        """The same for bodies of one's own."""
        return await self._references.prepare(bodies, self.sender(), self._model_name)

    @asynccontextmanager
    async def load(
        self, *, concurrency: int = 16, kinds: Sequence[str] | None = None,
        output_tokens: int = 64, rate: float | None = None, api_key: str | None = None,
    ) -> AsyncIterator[Load]:  # fmt: skip
        """Background load while the block runs; leaving it waits for what is in flight.

        `rate` asks for so many requests a second instead, however many are in flight.
        """
        bodies = await self.expect_undisturbed(kinds, output_tokens)
        load = Load(self.sender(api_key), bodies, concurrency, rate)
        self._loads.append(load)
        load.start()
        try:
            yield load
            await load.drain()
        finally:
            await load.cancel()

    # ── what is found ──

    def fault(self, text: str) -> None:
        """A mark on the timeline, now: something is being broken."""
        self.history.mark(text, "fault")

    def recovered(self, text: str) -> None:
        """A mark on the timeline, now: something is whole again."""
        self.history.mark(text, "recovery")

    def check(self, label: str, passed: bool, detail: str = "") -> None:
        """Something that must hold, and whether it does."""
        self.checks.append(Check(label, passed, detail))

    def check_at_most(self, label: str, value: float, limit: float, unit: str = "") -> None:
        """A figure that has a limit."""
        self.figure(label, value, unit)
        text = f"{format_value(value)} {unit}, at most {format_value(limit)}"
        self.check(label, value <= limit, text)

    def figure(self, label: str, value: float | str, unit: str = "") -> None:
        """Something that was measured."""
        self.figures.append(Figure(label, value, unit))

    @property
    def asked_seconds(self) -> float:
        """What the command line asks for beyond a drill's own length."""
        return 90 * self.options.get("minutes", 0) + 10 * self.options.get("kills", 0)

    def scaled(self, number: int, least: int = 1) -> int:
        """So many in a full run, fewer in a quick one."""
        return max(least, round(number * self.scale))

    async def settle(
        self, seconds: float = 30.0, *, may_fail: MayFail | None = None,
        exact_metrics: bool = True,
    ) -> None:  # fmt: skip
        """Wait until all is idle, then check I1 to I7 from the history and the cluster.

        `may_fail` says which requests may have failed: by default none. Without `exact_metrics`
        more may have been counted than was seen: clients left, or a frontend was killed.
        """
        for load in self._loads:
            await load.drain()
        self._loads.clear()
        history = self._since_launch()
        if self._attached_url is not None:
            self.checks += check_history(history, self._references.answers, may_fail)
            return
        last = await self._wait_until_idle(seconds)
        self.checks += check_history(history, self._references.answers, may_fail)
        assert self._first_state is not None
        self.checks.append(check_idle(self._first_state, last))
        is_exact = exact_metrics and not history.failed()
        self.checks.append(check_metrics(history, self._first_state, last, is_exact))
        self.checks.append(await asyncio.to_thread(self._check_leftovers))

    def _since_launch(self) -> History:
        return History(
            self.history.began_at,
            self.history.exchanges[self._first_exchange :],
            self.history.marks,
            self.history.samples[self._first_sample :],
        )

    async def _wait_until_idle(self, seconds: float) -> ClusterState:
        began_at = time.monotonic()
        last: ClusterState | None = None
        while True:
            try:
                await asyncio.to_thread(self.cluster.wait_until_ready)
                last = await asyncio.to_thread(observe, self.cluster)
            except (OSError, ControlError) as error:
                if time.monotonic() - began_at > seconds:
                    raise DrillError(f"the cluster does not answer: {error}") from error
            if last is not None and (self._is_idle(last) or time.monotonic() - began_at > seconds):
                return last
            await asyncio.sleep(QUIET_POLL_SECONDS)

    def _is_idle(self, state: ClusterState) -> bool:
        assert self._first_state is not None, "settle before launch"
        return is_idle(state) and check_idle(self._first_state, state).passed

    def _check_leftovers(self) -> Check:
        status = self.cluster.status()
        live = [process.pid for process in status.processes]
        sockets, records = dead_files(self.cluster.run_directory, status)
        return check_leftovers(self.cluster.all_pids(), sockets, records, live)

    # ── the end ──

    async def close(self) -> None:
        """Stop all loads and the cluster. Raises DrillError if a process survives."""
        for load in self._loads:
            await load.cancel()
        self._loads.clear()
        await self._leave()

    def log_tail(self, num_characters: int = 20_000) -> str:
        """The end of the cluster's log."""
        if self._cluster is None:
            return ""
        try:
            return self._cluster.log()[-num_characters:]
        except OSError:
            return ""

    @property
    def log_directory(self) -> Path | None:
        """Where the cluster's files are, if it is ours."""
        if self._cluster is None or self._attached_url is not None:
            return None
        return self._cluster.directory

    async def _leave(self) -> None:
        if self._sampler is not None:
            await self._sampler.stop()
            self._sampler = None
        if self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            await asyncio.to_thread(cluster.close)


def machine_in_words() -> str:
    """The machine, for a page of figures: cores and memory, no name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB of memory"
