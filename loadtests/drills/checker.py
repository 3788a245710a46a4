"""The history checker: what must hold of every request, whatever was done to the cluster.

Pure: a history and the fault-free answers go in, what is wrong comes out, one line for each.
"""

from collections.abc import Callable, Iterable, Mapping

from loadtests.drills.history import Exchange, History, Sample, body_key
from loadtests.drills.verdict import Check

MOST_LISTED = 5
DOUBLE_LIFE_SECONDS = 5.0
"""For so long an engine that is no more may still be counted: a hung one until the verdict."""
SAMPLE_SLACK_SECONDS = 1.0

References = Mapping[str, Exchange]
"""The fault-free answer to a body, by its key."""
MayFail = Callable[[Exchange], bool]


def check_history(
    history: History, references: References, may_fail: MayFail | None = None
) -> list[Check]:
    """I1, I2, I3 and I5 of a history in which everything has ended."""
    exchanges = history.exchanges
    return [
        _check("no request failed", _failures(exchanges, may_fail), _count(exchanges)),
        _check("I1 every request ended exactly once", _each(exchanges, not_one_end)),
        _check(
            "I2 no token missing, doubled or changed",
            [
                line
                for exchange in exchanges
                for line in differences(exchange, references.get(_key(exchange)))
            ],
            f"{sum(e.num_tokens for e in exchanges)} tokens",
        ),
        _check("I3 usage equals the tokens seen", _each(exchanges, wrong_usage)),
        _check("I5 no request lives on two engines", double_lives(history)),
    ]


# ── one request ──


def not_one_end(exchange: Exchange) -> list[str]:
    """What is wrong with how it ended."""
    if exchange.ended_at is None:
        return ["has not ended"]
    found = []
    if exchange.num_ends > 1 or exchange.num_events_after_end:
        found.append(f"went on after its end: {exchange.num_events_after_end} events")
    found += [
        f"choice {index} ended {len(choice.finish_reasons)} times"
        for index, choice in exchange.choices.items()
        if len(choice.finish_reasons) > 1
    ]
    if exchange.failure == "timeout":
        found.append("was never answered")
    return found


def differences(exchange: Exchange, reference: Exchange | None) -> list[str]:
    """Where its tokens and texts are not those of the fault-free answer.

    A request that failed must have got the beginning of the right answer. Without a reference,
    choices of equal bodies can not be compared, and nothing is said.
    """
    if reference is None or reference is exchange:
        return []
    found = []
    for index, choice in exchange.choices.items():
        right = reference.choices.get(index)
        if right is None:
            found.append(f"choice {index} should not be there")
        elif not _is_right_so_far(choice.token_ids, right.token_ids, exchange.is_whole):
            found.append(f"choice {index}: {_first_difference(choice.token_ids, right.token_ids)}")
        elif exchange.is_whole and choice.text != right.text:
            found.append(f"choice {index}: the tokens are right, the text is not")
        elif not right.text.startswith(choice.text):
            found.append(f"choice {index}: the text is not the beginning of the right one")
        elif exchange.is_whole and choice.finish_reasons[:1] != right.finish_reasons[:1]:
            found.append(f"choice {index} finished by {choice.finish_reasons}")
        elif exchange.is_whole and choice.num_logprobs != right.num_logprobs:
            found.append(f"choice {index}: {choice.num_logprobs} of {right.num_logprobs} logprobs")
    if exchange.is_whole and (missing := reference.choices.keys() - exchange.choices.keys()):
        found.append(f"choices {sorted(missing)} are missing")
    return found


def wrong_usage(exchange: Exchange) -> list[str]:
    """What its usage and its tokens disagree about."""
    if not exchange.is_whole or exchange.completion_tokens is None:
        return []
    if exchange.completion_tokens == exchange.num_tokens:
        return []
    return [f"usage says {exchange.completion_tokens} tokens, {exchange.num_tokens} came"]


# ── all together ──


def double_lives(history: History) -> list[str]:
    """When engines held more requests than there were, for longer than a verdict takes."""
    found = []
    excess_since: float | None = None
    for sample in history.samples:
        if sum(sample.held.values()) <= _most_choices(history, sample):
            excess_since = None
            continue
        if excess_since is None:
            excess_since = sample.at
        if sample.at - excess_since > DOUBLE_LIFE_SECONDS:
            found.append(
                f"at {sample.at - history.began_at:.1f} s the engines held {sample.held}, more than "
                f"the {_most_choices(history, sample)} choices under way"
            )
            excess_since = sample.at
    return found


def _most_choices(history: History, sample: Sample) -> int:
    """Choices that may have been under way about the moment of the sample."""
    start, end = sample.at - SAMPLE_SLACK_SECONDS, sample.at + SAMPLE_SLACK_SECONDS
    return sum(num_choices(e) for e in history.exchanges if e.overlaps(start, end))


def num_choices(exchange: Exchange) -> int:
    """How many answers a body asks for."""
    prompt = exchange.body.get("prompt")
    is_list = isinstance(prompt, list) and bool(prompt) and not isinstance(prompt[0], int)
    return (exchange.body.get("n") or 1) * (len(prompt) if is_list and prompt else 1)


def _failures(exchanges: list[Exchange], may_fail: MayFail | None) -> list[str]:
    return [
        f"{_name(exchange)}: {exchange.failure} {exchange.error_code}: {exchange.error}"
        for exchange in exchanges
        if exchange.failure and not (may_fail and may_fail(exchange))
    ]


def _each(exchanges: list[Exchange], find: Callable[[Exchange], list[str]]) -> list[str]:
    return [f"{_name(exchange)}: {line}" for exchange in exchanges for line in find(exchange)]


def _check(label: str, problems: Iterable[str], good: str = "") -> Check:
    found = list(problems)
    more = f"; and {len(found) - MOST_LISTED} more" if len(found) > MOST_LISTED else ""
    return Check(label, not found, "; ".join(found[:MOST_LISTED]) + more if found else good)


def _count(exchanges: list[Exchange]) -> str:
    whole = sum(exchange.is_whole for exchange in exchanges)
    return f"{whole} of {len(exchanges)} answered"


def _key(exchange: Exchange) -> str:
    return body_key(exchange.path, exchange.body)


def _name(exchange: Exchange) -> str:
    return f"{exchange.kind} request"


def _is_right_so_far(came: list[int], right: list[int], is_whole: bool) -> bool:
    return came == right if is_whole else came == right[: len(came)]


def _first_difference(came: list[int], right: list[int]) -> str:
    for position, (one, other) in enumerate(zip(came, right, strict=False)):
        if one != other:
            return f"token {position} is {one} instead of {other}"
    return f"{len(came)} tokens instead of {len(right)}"
