"""Log probabilities on their way to the text that they belong to."""

from collections.abc import Sequence

from frontend.openai.responses import ChatLogprob


class PendingLogprobs:
    """Those of tokens whose text has not come out of the parsers yet, in order."""

    def __init__(self) -> None:
        self._pending: list[ChatLogprob] = []
        self._num_gone = 0

    def add(self, logprobs: Sequence[ChatLogprob], num_hidden: int) -> None:
        """Add those of the next tokens; of the answer's first `num_hidden` tokens none are told."""
        self._pending += logprobs
        self._forget(max(0, num_hidden - self._num_gone))

    def take(self) -> list[ChatLogprob]:
        """All of them, for the text that has come out."""
        taken = list(self._pending)
        self.drop()
        return taken

    def drop(self) -> None:
        """Forget them: what has come out is no text for the reader."""
        self._forget(len(self._pending))

    def _forget(self, number: int) -> None:
        self._num_gone += len(self._pending[:number])
        del self._pending[:number]
