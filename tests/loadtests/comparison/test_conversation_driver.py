import asyncio
import time

from loadtests.comparison.conversation import Conversation, Turn
from loadtests.comparison.conversation_driver import ConversationDriver
from loadtests.record import RequestRecord

TWO_TURNS = Conversation(0.0, [1, 2], [Turn(0.0, [3]), Turn(0.05, [4])])


class EchoServer:
    """Answers each prompt with its length, and remembers what was asked and when it was due."""

    def __init__(self, fails_at: int | None = None, wants: int = 1) -> None:
        self.prompts: list[list[int]] = []
        self.due: list[float] = []
        self.records: list[RequestRecord] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.has_been_asked = asyncio.Event()
        """Set once there are so many prompts as it wants."""
        self._fails_at, self._wants = fails_at, wants

    async def ask(self, prompt: list[int], due_at: float) -> RequestRecord:
        """A `ConversationDriver`'s way to ask."""
        self.prompts.append(list(prompt))
        self.due.append(due_at)
        if len(self.prompts) == self._wants:
            self.has_been_asked.set()
        error = "HTTP 500" if len(self.prompts) - 1 == self._fails_at else None
        await self.may_answer.wait()
        record = RequestRecord(
            due_at, ended_at=time.monotonic(), token_ids=[len(prompt)], error_kind=error
        )
        self.records.append(record)
        return record


async def test_a_prompt_is_all_that_was_said_before_answers_included() -> None:
    server = EchoServer()
    await ConversationDriver(server.ask, [TWO_TURNS]).run()
    assert server.prompts == [[1, 2, 3], [1, 2, 3, 3, 4]]


async def test_a_next_question_is_due_its_thinking_time_after_the_answer() -> None:
    server = EchoServer()
    await ConversationDriver(server.ask, [TWO_TURNS]).run()
    assert server.due[1] == server.records[0].ended_at + 0.05


async def test_new_conversations_start_though_none_is_answered() -> None:
    server = EchoServer(wants=5)
    server.may_answer.clear()
    conversations = [Conversation(n / 100, [n], [Turn(0.0, [0])]) for n in range(5)]
    driver = ConversationDriver(server.ask, conversations)
    running = asyncio.create_task(driver.run())
    await asyncio.wait_for(server.has_been_asked.wait(), 10)
    assert driver.progress.in_flight == 5
    assert not server.records
    server.may_answer.set()
    await running
    assert len(driver.progress.records) == driver.progress.total == 5
    assert driver.progress.in_flight == 0


async def test_a_conversation_ends_at_a_failed_answer_and_others_go_on() -> None:
    server = EchoServer(fails_at=0)
    later = TWO_TURNS._replace(starts_at_seconds=0.01)
    driver = ConversationDriver(server.ask, [TWO_TURNS, later])
    await driver.run()
    assert [record.error_kind for record in driver.progress.records] == ["HTTP 500", None, None]
