"""Log probabilities in the shapes that clients know."""

from collections.abc import Sequence

from frontend.detokenizer import make_detokenizer
from frontend.logprobs import PositionLogprobs
from frontend.openai.responses import (
    ChatLogprob,
    ChatLogprobs,
    CompletionLogprobs,
    PromptLogprob,
    PromptLogprobs,
    TopLogprob,
)
from frontend.output_processor import TokenLogprob
from frontend.tokenizer import Tokenizer


class TokenText:
    """Writes tokens, by their text or, if so asked, as `token_id:N`."""

    def __init__(self, tokenizer: Tokenizer, as_token_ids: bool) -> None:
        self._tokenizer = tokenizer
        self._as_token_ids = as_token_ids

    def chat(self, logprobs: Sequence[TokenLogprob]) -> ChatLogprobs:
        """Row by row, each token with its alternatives."""
        return ChatLogprobs([self._chat_logprob(item.position) for item in logprobs])

    def completion(self, logprobs: Sequence[TokenLogprob], first_offset: int) -> CompletionLogprobs:
        """Column by column; texts begin at `first_offset` of the whole text."""
        return CompletionLogprobs(
            text_offset=[first_offset + item.text_offset for item in logprobs],
            token_logprobs=[item.position.logprob for item in logprobs],
            tokens=[self._name(item.position.token_id) for item in logprobs],
            top_logprobs=[self._top(item.position) for item in logprobs],
        )

    def echoed_prompt(
        self,
        prompt_token_ids: list[int],
        later: Sequence[PositionLogprobs],
        skip_special_tokens: bool,
    ) -> CompletionLogprobs:
        """The prompt's own columns; its first token has no probability, since nothing is before it."""
        detokenizer = make_detokenizer(self._tokenizer, [], skip_special_tokens)
        offset, offsets = 0, []
        for token_id in prompt_token_ids:
            offsets.append(offset)
            offset += len(detokenizer.push(token_id))
        return CompletionLogprobs(
            text_offset=offsets,
            token_logprobs=[None, *(position.logprob for position in later)],
            tokens=[self._name(token_id) for token_id in prompt_token_ids],
            top_logprobs=[None, *(self._top(position) for position in later)],
        )

    def prompt(self, later: Sequence[PositionLogprobs]) -> PromptLogprobs:
        """vLLM's `prompt_logprobs`: one map from token id to probability a position."""
        return [None, *(self._prompt_position(position) for position in later)]

    def _chat_logprob(self, position: PositionLogprobs) -> ChatLogprob:
        return ChatLogprob(
            self._name(position.token_id),
            position.logprob,
            self._bytes(position.token_id),
            [TopLogprob(self._name(i), value, self._bytes(i)) for i, value in position.best],
        )

    def _top(self, position: PositionLogprobs) -> dict[str, float]:
        top = {self._name(token_id): logprob for token_id, logprob in position.best}
        return {self._name(position.token_id): position.logprob} | top

    def _prompt_position(self, position: PositionLogprobs) -> dict[int, PromptLogprob]:
        ranks = {token_id: rank for rank, (token_id, _) in enumerate(position.best, 1)}
        values = {position.token_id: position.logprob} | dict(position.best)
        return {
            token_id: PromptLogprob(value, ranks.get(token_id), self._text(token_id))
            for token_id, value in values.items()
        }

    def _name(self, token_id: int) -> str:
        return f"token_id:{token_id}" if self._as_token_ids else self._text(token_id)

    def _text(self, token_id: int) -> str:
        return self._tokenizer.token_bytes(token_id).decode("utf-8", "replace")

    def _bytes(self, token_id: int) -> list[int]:
        return list(self._tokenizer.token_bytes(token_id))
