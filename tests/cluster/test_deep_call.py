"""Calls on a deep stack. That it is deep is seen in `tests/frontend/structured`: without it they end the process."""

import threading

import pytest

from cluster.deep_call import STACK_BYTES, call_deep


def test_what_the_function_returns_or_raises_comes_back() -> None:
    assert call_deep(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        call_deep(divmod, 7, 0)


def test_other_threads_keep_the_stack_they_had() -> None:
    usual_bytes = threading.stack_size()
    assert call_deep(threading.get_ident) != threading.get_ident()
    assert threading.stack_size() == usual_bytes != STACK_BYTES
