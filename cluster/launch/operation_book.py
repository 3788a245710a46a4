"""Which operation is under way, and how the last one ended. Pure: values in, values out."""

from typing import Literal

import msgspec

from cluster.errors import OperationConflict
from cluster.launch.operation import Operation

Outcome = Literal["done", "failed", "cancelled"]


class OperationOutcome(msgspec.Struct, frozen=True):
    """How an operation ended."""

    number: int
    operation: str
    outcome: Outcome
    detail: str = ""
    """What went wrong, or what else there is to say."""


class Ticket(msgspec.Struct, frozen=True):
    """The answer to whoever asks for an operation: by its number its end is known."""

    number: int
    operation: str
    is_new: bool
    """Otherwise the same was under way already, and this asks for nothing more."""


class OperationBook:
    """One operation at a time; the same one again joins the one that is under way."""

    def __init__(self) -> None:
        self._number = 0
        self.current: Operation | None = None
        self.progress = ""
        """The step that is being done, in words."""
        self.last: OperationOutcome | None = None

    @property
    def words(self) -> str:
        """What is under way, or nothing."""
        if self.current is None:
            return ""
        return f"{self.current.words}: {self.progress}" if self.progress else self.current.words

    def begin(self, operation: Operation) -> Ticket:
        """Note that this is under way now. Raises OperationConflict while something else is."""
        if self.current is not None:
            if self.current.words == operation.words:
                return Ticket(self._number, operation.words, is_new=False)
            raise OperationConflict(
                f"{operation.words}: not while this is under way: {self.words}; ask again when it "
                "has ended"
            )
        self._number += 1
        self.current, self.progress = operation, ""
        return Ticket(self._number, operation.words, is_new=True)

    def advance(self, progress: str) -> None:
        """Note which step is being done."""
        assert self.current is not None, progress
        self.progress = progress

    def end(self, outcome: Outcome, detail: str = "") -> None:
        """Note that it has ended."""
        assert self.current is not None, outcome
        self.last = OperationOutcome(self._number, self.current.words, outcome, detail)
        self.current, self.progress = None, ""
