"""Several numbers in one argument of a command line."""

from loadtests.arguments import positive_int


def positive_ints(text: str) -> list[int]:
    """Whole numbers from 1, with commas between. Raises ArgumentTypeError."""
    return [positive_int(part) for part in text.split(",")]
