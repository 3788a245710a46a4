"""Who is to blame for an end, and what it is called."""

import signal

import pytest

from cluster.launch.exit_cause import OutOfMemoryWatch, explain_exit


@pytest.mark.parametrize(
    ("return_code", "text", "fault"),
    [
        (0, "exit code 0", False),
        (1, "exit code 1", True),
        (-signal.SIGKILL, "SIGKILL", False),
        (-signal.SIGTERM, "SIGTERM", False),
        (-signal.SIGSEGV, "SIGSEGV", True),
        (-signal.SIGABRT, "SIGABRT", True),
        (-signal.SIGBUS, "SIGBUS", True),
        (-99, "signal 99", True),
    ],
)
def test_signals_from_outside_are_no_fault(return_code: int, text: str, fault: bool) -> None:
    assert explain_exit(return_code, is_out_of_memory=False) == (text, fault)


def test_a_kill_for_lack_of_memory_is_a_fault_of_its_own_kind() -> None:
    cause = explain_exit(-signal.SIGKILL, is_out_of_memory=True)
    assert cause.fault
    assert cause.kind == "out of memory"


def test_lack_of_memory_explains_no_other_end() -> None:
    assert explain_exit(-signal.SIGSEGV, is_out_of_memory=True).text == "SIGSEGV"


def test_a_quiet_machine_has_no_memory_kills() -> None:
    assert not OutOfMemoryWatch().has_struck()
