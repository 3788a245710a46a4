"""Work that recurses as deep as a client's text is nested, in threads with the stack for it."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

STACK_BYTES = 128 * 1024 * 1024
"""Address space, not memory. The deepest grammar of 64 KiB that was found needs less than 64 MiB."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_setting = threading.Lock()


def submit_deep(
    executor: ThreadPoolExecutor,
    function: Callable[Parameters, Result],
    *args: Parameters.args,
    **kwargs: Parameters.kwargs,
) -> Future[Result]:
    """`executor.submit`, where a thread that it starts gets the deep stack."""
    with _setting:  # the size is the whole process's, for threads that start from now on
        usual_bytes = threading.stack_size(STACK_BYTES)
        try:
            return executor.submit(function, *args, **kwargs)
        finally:
            threading.stack_size(usual_bytes)


def call_deep(
    function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Result:
    """What the function returns, or raises; on a common thread's stack it might end the process."""
    with ThreadPoolExecutor(1, "deep-call") as executor:
        return submit_deep(executor, function, *args, **kwargs).result()
