"""Calls of an engine's methods that wait for their answers."""

import asyncio

from cluster.wire.messages import UtilityResult


class UtilityCalls:
    """The calls that are under way; each ends with an answer or with its engine."""

    def __init__(self) -> None:
        self._last_call_id = 0
        self._calls: dict[int, tuple[tuple[int, int], asyncio.Future[UtilityResult]]] = {}

    def open(
        self, rank: int, incarnation: int, timeout_seconds: float
    ) -> tuple[int, asyncio.Future[UtilityResult]]:
        """A fresh call id, and the answer to come: the engine's, or that there was none in time."""
        self._last_call_id += 1
        call_id = self._last_call_id
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[UtilityResult] = loop.create_future()
        self._calls[call_id] = ((rank, incarnation), answer)
        no_answer = UtilityResult(rank, incarnation, call_id, error="no answer in time")
        timer = loop.call_later(timeout_seconds, self.resolve, no_answer)

        def close(_: asyncio.Future[UtilityResult]) -> None:
            timer.cancel()
            del self._calls[call_id]

        answer.add_done_callback(close)
        return call_id, answer

    def resolve(self, result: UtilityResult) -> None:
        """An engine has answered; unknown call ids are ignored."""
        _, answer = self._calls.get(result.call_id, (None, None))
        if answer is not None and not answer.done():
            answer.set_result(result)

    def fail(self, rank: int, incarnation: int, cause: str) -> None:
        """An engine is gone: nobody may wait for it any longer."""
        gone = (rank, incarnation)
        for call_id in [call_id for call_id, (owner, _) in self._calls.items() if owner == gone]:
            self.resolve(UtilityResult(rank, incarnation, call_id, error=cause))
