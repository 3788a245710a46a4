"""Standard error is shared in whole lines, and nobody waits for whoever reads it."""

import fcntl
import os
import pty
import struct
import termios
import time

from cluster.launch.error_output import MAX_QUEUED_CHARACTERS, ErrorOutput


def read_to_end(descriptor: int) -> str:
    """Everything that was written, in the terminal's case with its line ends made plain."""
    data = b""
    try:
        while chunk := os.read(descriptor, 65536):
            data += chunk
    except OSError:
        pass  # how a terminal tells that its other side is closed
    os.close(descriptor)
    return data.decode().replace("\r\n", "\n")


def test_lines_arrive_in_order() -> None:
    read_end, write_end = os.pipe()
    output = ErrorOutput(write_end)
    for number in range(1000):
        output.write(f"{number}\n")
    output.close()
    os.close(write_end)
    assert read_to_end(read_end) == "".join(f"{number}\n" for number in range(1000))


def test_live_lines_stay_below_the_log_and_go_at_the_end() -> None:
    screen, terminal = pty.openpty()
    output = ErrorOutput(terminal)
    output.show(["engine 0 loading", "engine 1 loading"])
    output.write("a log line\n")
    output.close()
    os.close(terminal)
    block = "engine 0 loading\nengine 1 loading\n"
    erase = "\x1b[2F\x1b[J"
    assert read_to_end(screen) == block + erase + "a log line\n" + block + erase


def test_no_live_lines_without_a_terminal() -> None:
    read_end, write_end = os.pipe()
    output = ErrorOutput(write_end)
    output.show(["engine 0 loading"])
    output.close()
    os.close(write_end)
    assert read_to_end(read_end) == ""


def test_a_reader_that_does_not_read_holds_up_nothing() -> None:
    read_end, write_end = os.pipe()
    output = ErrorOutput(write_end)
    started = time.monotonic()
    for _ in range(20_000):
        output.write("x" * 100 + "\n")
    output.close(timeout_seconds=0.1)
    assert time.monotonic() - started < 5
    os.close(read_end)
    os.close(write_end)
    output._thread.join(5)
    assert not output._thread.is_alive()


def test_what_waits_for_a_reader_is_bounded_however_long_its_pieces_are() -> None:
    read_end, write_end = os.pipe()
    output = ErrorOutput(write_end)
    for _ in range(1000):
        output.write("x" * 99_999 + "\n")
    output.close(timeout_seconds=0.1)
    os.set_blocking(read_end, False)
    taken = 0
    while output._thread.is_alive():
        try:
            taken += len(os.read(read_end, 65536))
        except BlockingIOError:
            output._thread.join(0.01)
    assert 0 < taken <= MAX_QUEUED_CHARACTERS + 200_000
    os.close(read_end)
    os.close(write_end)


def test_live_lines_that_do_not_fit_the_terminal_are_counted() -> None:
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 4, 12, 0, 0))
    output = ErrorOutput(terminal)
    output.show([f"engine {rank} loading" for rank in range(9)])
    output.close()
    os.close(terminal)
    block = "engine 0 lo\nengine 1 lo\n  … and 7 m\n"
    assert read_to_end(screen) == block + "\x1b[3F\x1b[J"
