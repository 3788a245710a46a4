import argparse

import pytest

from loadtests.arguments import positive_ints


def test_several_numbers_come_in_order_and_each_once() -> None:
    assert positive_ints("8,1,32,8") == (1, 8, 32)


@pytest.mark.parametrize("text", ["", "1,", "0", "1,-2", "1.5", "1;2"])
def test_what_is_no_number_from_1_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a whole number from 1"):
        positive_ints(text)
