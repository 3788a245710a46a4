"""Made-up histories for the tests of the checker and of the page."""

from typing import Any

from loadtests.drills.history import Arrival, Choice, Exchange, History, body_key

PATH = "/v1/completions"


def right_answer(tokens: list[int]) -> str:
    """The text of tokens."""
    return "".join(chr(97 + token % 26) for token in tokens)


def exchange(
    number: int = 0,
    sent_at: float = 0.0,
    tokens: list[int] | None = None,
    seconds_a_token: float = 0.1,
    kind: str = "greedy",
    **body: Any,
) -> Exchange:
    """A whole answer of one choice, a token at a time."""
    tokens = tokens if tokens is not None else [number + position for position in range(8)]
    times = [sent_at + seconds_a_token * (position + 1) for position in range(len(tokens))]
    return Exchange(
        kind=kind,
        path=PATH,
        body={"prompt": f"question {number}", "stream": True, **body},
        sent_at=sent_at,
        ended_at=times[-1] if times else sent_at,
        status=200,
        arrivals=[Arrival(at, 0, 1) for at in times],
        choices={0: Choice(right_answer(tokens), list(tokens), 0, ["length"])},
        num_ends=1,
        prompt_tokens=3,
        completion_tokens=len(tokens),
        engines=[0],
    )


def history(*exchanges: Exchange) -> History:
    """A history that began at 0."""
    return History(began_at=0.0, exchanges=list(exchanges))


def references(*exchanges: Exchange) -> dict[str, Exchange]:
    """The fault-free answers by their keys."""
    return {body_key(one.path, one.body): one for one in exchanges}
