"""One operation at a time."""

import pytest

from cluster.errors import OperationConflict
from cluster.launch.operation import Drain, Restart
from cluster.launch.operation_book import OperationBook, OperationOutcome


def test_the_same_operation_is_joined_whatever_its_deadline() -> None:
    book = OperationBook()
    first = book.begin(Drain(1))
    again = book.begin(Drain(1, deadline=5.0))
    assert (first.is_new, again.is_new, again.number) == (True, False, first.number)


def test_another_operation_is_refused_by_what_is_under_way() -> None:
    book = OperationBook()
    book.begin(Drain(1))
    book.advance("engine 1 finishes its requests")
    with pytest.raises(OperationConflict, match="drain engine 1: engine 1 finishes its requests"):
        book.begin(Restart(engine=1))


def test_the_end_of_an_operation_is_remembered_and_makes_room_for_the_next() -> None:
    book = OperationBook()
    number = book.begin(Drain(1)).number
    book.end("failed", "it would not")
    assert book.last == OperationOutcome(number, "drain engine 1", "failed", "it would not")
    assert book.words == ""
    assert book.begin(Drain(1)).number == number + 1
