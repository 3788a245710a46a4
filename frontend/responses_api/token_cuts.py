"""News of an answer, cut at its tokens."""

from collections import deque
from collections.abc import Iterator

from frontend.output_processor import ChoiceDelta, TokenLogprob


class TokenCuts:
    """Cuts the text of news where its tokens begin, so that each token goes with its own text.

    Text may come later than its tokens, when stop strings hold it back.
    """

    def __init__(self) -> None:
        self._num_characters = 0
        """Of the text that has come."""
        self._early: deque[TokenLogprob] = deque()
        """Tokens whose text has not come yet."""

    def cut(self, news: ChoiceDelta) -> list[ChoiceDelta]:
        """The same news in pieces. All token ids are in the first piece, the end is in the last."""
        self._early += news.logprobs
        pieces = list(self._pieces(news.text)) or [ChoiceDelta()]
        pieces[0].token_ids = news.token_ids
        if news.finish_reason is not None:
            pieces[-1].logprobs += self._early
            self._early.clear()
            pieces[-1].finish_reason = news.finish_reason
            pieces[-1].stop_reason = news.stop_reason
        return pieces

    def _pieces(self, text: str) -> Iterator[ChoiceDelta]:
        while text:
            logprobs = self._begun()
            end = self._early[0].text_offset - self._num_characters if self._early else len(text)
            piece, text = text[:end], text[end:]
            yield ChoiceDelta(piece, logprobs=logprobs)
            self._num_characters += len(piece)

    def _begun(self) -> list[TokenLogprob]:
        """The tokens that the text to come begins with."""
        begun: list[TokenLogprob] = []
        while self._early and self._early[0].text_offset <= self._num_characters:
            begun.append(self._early.popleft())
        return begun
