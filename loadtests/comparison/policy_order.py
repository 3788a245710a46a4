"""In which order policies take their turns."""

from collections.abc import Iterator, Sequence


def policy_order(policies: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Round and policy, there and back again (A B, B A, …).

    A machine that grows slower or faster over the run then does so to all alike.
    """
    for number in range(rounds):
        turn = policies if number % 2 == 0 else policies[::-1]
        for policy in turn:
            yield number, policy
