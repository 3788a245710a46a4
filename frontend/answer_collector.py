"""What comes of a generation, kept until all of it is there."""

from frontend.generation import Generation
from frontend.output_processor import ChoiceDelta
from frontend.request_stream import TokenBatch


class AnswerCollector:
    """Puts the choices together, as the `Consumer` of a stream: its task wakes up at the end."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._choices = [ChoiceDelta() for _ in generation.choices]

    def take(self, batch: TokenBatch, index: int = 0) -> None:
        """Add a batch of this choice."""
        news = self._generation.process(index, batch)
        if news is not None:
            self._choices[index].extend(news.delta)

    def send(self) -> bool:
        """Nothing is sent before the end."""
        return not self._generation.is_finished

    async def run(self) -> list[ChoiceDelta]:
        """The whole choices. Raises EngineFailed or NotServing if one cannot be finished."""
        while not self._generation.is_finished:
            news = await self._generation.next_batch(None, self)
            assert news is not None, "only a wait with a time limit ends without news"
            self.take(*news)
        return self._choices
