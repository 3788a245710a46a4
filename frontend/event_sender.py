"""What comes of a generation, told to a client in events."""

from frontend.generation import Generation
from frontend.openai.answer import Answer
from frontend.openai.sse import HEADERS
from frontend.request_stream import TokenBatch
from frontend.streamed_body import StreamedBody

NOT_RESUMABLE_HEADER = (b"x-quadriga-resumable", b"false")
"""Tells that the answer is too long to be kept for another engine to go on with it."""


class EventSender:
    """Sends each event as soon as it is made: mostly on the spot, as the stream's `Consumer`.

    The task that runs it does the rest: the head, the end, and whatever has to be waited for.
    """

    def __init__(
        self,
        generation: Generation,
        answer: Answer,
        body: StreamedBody,
        seconds_between_signs_of_life: float,
    ) -> None:
        self._generation = generation
        self._answer = answer
        self._body = body
        self._seconds_between_signs_of_life = seconds_between_signs_of_life
        self._made: list[bytes] = []
        """Events that are not sent yet."""

    def take(self, batch: TokenBatch, index: int = 0) -> None:
        """Make the events of a batch of this choice."""
        news = self._generation.process(index, batch)
        if news is None:
            return
        for chunk in self._answer.chunks(self._generation, news):
            event = chunk if isinstance(chunk, bytes) else self._answer.events.event(chunk)
            self._made.append(event)

    def send(self) -> bool:
        """Send what is made, as far as the connection takes it at once."""
        made = self._made
        while made and self._body.write_at_once(made[0]):
            del made[0]
        return not made and not self._generation.is_finished

    async def run(self) -> None:
        """Tell everything, to the end of the generation. Raises what ends it too early."""
        form = self._answer.events
        while not self._generation.is_finished:
            news = await self._generation.next_batch(self._seconds_between_signs_of_life, self)
            if news is None:
                self._made.append(form.waiting)
            else:
                self.take(*news)
            await self.flush()
        self._made += [form.event(chunk) for chunk in self._answer.last_chunks(self._generation)]
        if form.done:
            self._made.append(form.done)
        await self.flush()

    async def flush(self) -> None:
        """Send what is made, behind the head of the answer, however long that takes."""
        while self._made:
            if not self._body.has_begun:
                await self._body.begin([*HEADERS, *resumption_headers(self._generation)])
            await self._body.write(self._made.pop(0))


def resumption_headers(generation: Generation) -> list[tuple[bytes, bytes]]:
    """What the head of an answer says about going on in another engine."""
    return [] if generation.is_resumable else [NOT_RESUMABLE_HEADER]
