"""More engines and frontends, or fewer, while the cluster serves."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from cluster.config import ClusterConfig, save_config
from cluster.errors import ConfigError, ControlError
from cluster.launch.contradictions import check_contradictions
from cluster.launch.keeper import ProcessKeeper
from cluster.launch.managed_process import ManagedProcess
from cluster.launch.operation import Scale
from cluster.launch.plan import ProcessSpec
from cluster.launch.procedures import Procedures
from cluster.launch.rundir import RunDirectory
from cluster.wire.messages import Role


class Resizing:
    """Owns the size of the cluster: its configuration, and which places there are."""

    def __init__(
        self,
        config: ClusterConfig,
        plan: Callable[[ClusterConfig], Sequence[ProcessSpec]],
        keeper: ProcessKeeper,
        run_directory: RunDirectory,
        procedures: Procedures,
        on_change: Callable[[], None],
        on_removed: Callable[[ManagedProcess], None],
    ) -> None:
        """`on_removed` is called with each process whose place is no more."""
        self._config = config
        self._plan = plan
        self._keeper = keeper
        self._run_directory = run_directory
        self._procedures = procedures
        self._on_change = on_change
        self._on_removed = on_removed

    def check(self, scale: Scale) -> None:
        """Raises ControlError, naming the setting and its limit, if that size cannot be."""
        self._resized(scale)

    async def scale(self, scale: Scale) -> str:
        """Come to that size, and return when it is so; what there is to say of it, or nothing.

        Raises ControlError if a new process is not ready in time, and leaves it trying.
        """
        target = self._resized(scale)
        specs = {spec.name: spec for spec in self._plan(target)}
        await self._grow(target, specs)
        remark = await self._shrink(specs)
        for process in self._keeper.processes:
            process.spec = specs[process.name]  # for its next start
        self._adopt(target)
        return remark

    async def _grow(self, target: ClusterConfig, specs: dict[str, ProcessSpec]) -> None:
        known = {process.name for process in self._keeper.processes}
        new = [spec for name, spec in specs.items() if name not in known]
        if not new:
            return
        self._adopt(_larger(self._config, target))
        added = [self._keeper.add(spec) for spec in new]
        for process in added:
            self._keeper.start(process)
        for process in added:
            await self._procedures.until_ready(process)

    async def _shrink(self, specs: dict[str, ProcessSpec]) -> str:
        """All that are to go leave at once, or the requests of one would move to the next."""
        going = [process for process in self._keeper.processes if process.name not in specs]
        results = await asyncio.gather(
            *(self._leave(process) for process in going), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result
        for process in going:
            self._keeper.remove(process)
            self._on_removed(process)
        return "; ".join(result for result in results if isinstance(result, str) and result)

    async def _leave(self, process: ManagedProcess) -> str:
        if process.spec.role is Role.FRONTEND:
            return await self._procedures.retire(process)
        await self._procedures.drain(process)
        return ""

    def _adopt(self, config: ClusterConfig) -> None:
        """Let this be the size that every process started from now on is told."""
        try:
            self._run_directory.replace_config(lambda path: save_config(config, path))
        except OSError as error:
            raise ControlError(f"cluster.json was not written: {error.strerror}") from None
        self._config = config
        self._on_change()

    def _resized(self, scale: Scale) -> ClusterConfig:
        engines, frontends = scale.engines, scale.frontends
        config = _with_size(
            self._config,
            len(self._keeper.of(Role.ENGINE)) if engines is None else engines,
            len(self._keeper.of(Role.FRONTEND)) if frontends is None else frontends,
        )
        try:
            check_contradictions(config)
            self._run_directory.check_sockets(config.num_frontends)
        except ConfigError as error:
            raise ControlError(f"scale: {error}") from None
        return config


def _with_size(config: ClusterConfig, engines: int, frontends: int) -> ClusterConfig:
    replace = msgspec.structs.replace
    return replace(
        config,
        engine=replace(config.engine, data_parallel_size=engines),
        frontend=replace(config.frontend, frontends=frontends),
    )


def _larger(one: ClusterConfig, other: ClusterConfig) -> ClusterConfig:
    return _with_size(
        one,
        max(one.engine.data_parallel_size, other.engine.data_parallel_size),
        max(one.num_frontends, other.num_frontends),
    )
