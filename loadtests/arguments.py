"""What arguments of the command line may be; each raises ArgumentTypeError, with the limit."""

import argparse
from pathlib import Path
from typing import NamedTuple

from loadtests.http_client import HttpClient


def url(text: str) -> str:
    """The address of a server, without a slash at its end."""
    try:
        HttpClient(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text.rstrip("/")


class Address(NamedTuple):
    """A server by the name that the user gave it."""

    name: str
    url: str


def named_url(text: str) -> Address:
    """NAME=URL."""
    name, value = named(text)
    return Address(name, url(value))


def named(text: str) -> tuple[str, str]:
    """A name, and what it stands for."""
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError(f"{text!r} has not the form NAME=…")
    return name, value


def output_file(text: str) -> Path:
    """A file that can be written, or - in its place."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a file in a folder that is there")
    return path


def positive_int(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def positive_ints(text: str) -> tuple[int, ...]:
    """Whole numbers from 1, separated by commas, in order and each once."""
    return tuple(sorted({positive_int(part) for part in text.split(",")}))


def positive_float(text: str) -> float:
    """A number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def share(text: str) -> float:
    """A number from 0 to 1."""
    try:
        part = float(text)
    except ValueError:
        part = -1.0
    if not 0 <= part <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return part
