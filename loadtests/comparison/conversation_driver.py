"""Holds conversations against a server: open loop by conversations, not by requests."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from loadtests.comparison.conversation import Conversation
from loadtests.driver import Progress
from loadtests.record import RequestRecord

Ask = Callable[[list[int], float], Awaitable[RequestRecord]]
"""Sends a prompt that is due at a time and says what came back; does not raise."""


class ConversationDriver:
    """Starts each conversation at its time, however many are under way.

    A next question is due its thinking time after the answer, as a person's would be: so the load
    cannot run away from a slow server within a conversation, yet new people come all the same.
    """

    def __init__(self, ask: Ask, conversations: Sequence[Conversation]) -> None:
        self._ask = ask
        self._conversations = conversations
        self.progress = Progress(sum(len(each.turns) for each in conversations))

    async def run(self) -> None:
        """Hold all conversations to their ends."""
        start = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for conversation in self._conversations:
                due_at = start + conversation.starts_at_seconds
                await asyncio.sleep(due_at - time.monotonic())
                group.create_task(self._hold(conversation, due_at))

    async def _hold(self, conversation: Conversation, due_at: float) -> None:
        said = list(conversation.system_prompt)
        for turn in conversation.turns:
            due_at += turn.think_seconds
            await asyncio.sleep(due_at - time.monotonic())
            said += turn.question
            answer = await self._send(said, due_at)
            if answer.error_kind is not None:
                return  # there is nothing to go on from
            said += answer.token_ids
            due_at = answer.ended_at

    async def _send(self, prompt: list[int], due_at: float) -> RequestRecord:
        self.progress.in_flight += 1
        try:
            answer = await self._ask(prompt, due_at)
            self.progress.records.append(answer)
            return answer
        finally:
            self.progress.in_flight -= 1
