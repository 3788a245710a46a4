"""Carries out what the cluster is asked to do, one operation at a time."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from cluster.errors import ClusterError
from cluster.launch.keeper import ProcessKeeper
from cluster.launch.operation import Drain, Operation, Restart, Scale
from cluster.launch.operation_book import OperationBook, Outcome, Ticket
from cluster.launch.operation_checks import check_operation
from cluster.launch.procedures import Procedures
from cluster.launch.resizing import Resizing
from cluster.wire.messages import Role


class Operations:
    """Begins an operation and answers at once; the book tells how far it is, and how it ended.

    `on_change` is called when one has begun or ended.
    """

    def __init__(
        self,
        book: OperationBook,
        keeper: ProcessKeeper,
        procedures: Procedures,
        resizing: Resizing,
        on_change: Callable[[], None],
    ) -> None:
        self._book = book
        self._keeper = keeper
        self._procedures = procedures
        self._resizing = resizing
        self._on_change = on_change
        self._task: asyncio.Task[None] | None = None
        self._logger = logging.getLogger("launch")

    def begin(self, operation: Operation) -> Ticket:
        """Begin it, or join the same one.

        Raises ControlError if it cannot be, OperationConflict if it cannot be now.
        """
        if self._book.current is None:
            check_operation(operation, self._keeper.of(Role.ENGINE), self._keeper.of(Role.FRONTEND))
            if isinstance(operation, Scale):
                self._resizing.check(operation)
        ticket = self._book.begin(operation)
        if ticket.is_new:
            self._on_change()
            self._logger.info("%s: begun", operation.words)
            self._task = asyncio.create_task(self._run(operation))
        return ticket

    async def cancel(self) -> None:
        """End the operation under way, if there is one, in good order."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self, operation: Operation) -> None:
        try:
            remark = await self._carry_out(operation)
        except asyncio.CancelledError:
            self._end("cancelled", "the cluster is stopping")
            raise
        except ClusterError as error:
            self._end("failed", str(error))
        except Exception as error:
            self._logger.exception("%s failed", operation.words)
            self._end("failed", f"{type(error).__name__}: {error}")
        else:
            self._end("done", remark)

    def _end(self, outcome: Outcome, detail: str) -> None:
        self._book.end(outcome, detail)
        last = self._book.last
        assert last is not None
        level = logging.WARNING if outcome == "failed" else logging.INFO
        more = f": {detail}" if detail else ""
        self._logger.log(level, "%s: %s%s", last.operation, outcome, more)
        self._on_change()

    async def _carry_out(self, operation: Operation) -> str:
        engines, frontends = self._keeper.of(Role.ENGINE), self._keeper.of(Role.FRONTEND)
        match operation:
            case Drain(rank, deadline_seconds):
                await self._procedures.drain(engines[rank], deadline_seconds)
            case Restart(engine=int(rank)):
                await self._procedures.restart_engine(engines[rank])
            case Restart(frontend=int(index)):
                return await self._procedures.restart_frontend(frontends[index])
            case Restart(coordinator=True):
                await self._procedures.restart_coordinator()
            case Restart():
                return await self._procedures.restart_all()
            case Scale():
                return await self._resizing.scale(operation)
        return ""
