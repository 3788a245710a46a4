"""Which engine a session was last on: it may hold what the session's next request begins with."""

from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

MOST_SESSIONS = 10_000


class LastTurn(NamedTuple):
    """Where a session's newest request went, and how long its context was."""

    rank: int
    incarnation: int
    context_tokens: int


class Sessions:
    """The last turn of each session, of as many as were seen most recently.

    A session is a hint and never a pin: its engine is taken to hold the session's context, as if the
    prefix index had said so, and if another costs less all the same, the session moves on.
    """

    def __init__(self, most_sessions: int = MOST_SESSIONS) -> None:
        self._most_sessions = most_sessions
        self._turns: OrderedDict[bytes, LastTurn] = OrderedDict()

    def __len__(self) -> int:
        return len(self._turns)

    def remember(self, session: str, turn: LastTurn) -> None:
        """Note a session's newest turn, and forget the session that was not seen for longest.

        A request without a session ("") leaves nothing.
        """
        if not session:
            return
        key = _key(session)
        self._turns[key] = turn
        self._turns.move_to_end(key)
        if len(self._turns) > self._most_sessions:
            self._turns.popitem(last=False)

    def with_soft_hit(
        self,
        hit_tokens: Mapping[int, int],
        session: str,
        context_tokens: int,
        incarnations: Mapping[int, int],
    ) -> Mapping[int, int]:
        """The hits by rank, with the session's last engine having at least the session's length.

        Not if that engine is none of `incarnations` (by rank): it has died since, and its cache with
        it.
        """
        turn = self._turns.get(_key(session)) if session else None
        if turn is None or incarnations.get(turn.rank) != turn.incarnation:
            return hit_tokens
        soft_tokens = min(turn.context_tokens, context_tokens)
        known_tokens = hit_tokens.get(turn.rank, 0)
        return {**hit_tokens, turn.rank: max(known_tokens, soft_tokens)}


def _key(session: str) -> bytes:
    """Clients choose the names, and they may be long."""
    return blake2b(session.encode(errors="surrogatepass"), digest_size=16).digest()
