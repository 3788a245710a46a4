"""Commands in documents, and what is wrong with them."""

import argparse
import re
import shlex
from collections.abc import Iterator

from cluster.launch import cli as launch_cli
from cluster.operate import cli as cluster_cli
from loadtests import cli as loadtests_cli
from tests.architecture.repository import ROOT

MODULES = {
    ("python", "-m", "loadtests"): "loadtests",
    ("python", "-m", "cluster.launch"): "launch",
    ("python", "-m", "cluster"): "cluster",
}
SEPARATORS = {"&&", "||", ";", "|", "&", "(", ")"}
ASSIGNMENT = re.compile(r"\w+=.*")


def split_commands(line: str) -> Iterator[list[str]]:
    """The commands in a line of shell, as words, without prompts, comments and assignments."""
    lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return  # an apostrophe in what is no shell at all
    command: list[str] = []
    for word in [*words, ";"]:
        if word in SEPARATORS:
            if command:
                yield command
            command = []
        elif command or not ASSIGNMENT.fullmatch(word):
            command.append(word)


def problem_of(words: list[str]) -> str | None:
    """What is wrong with a command, if it is one of ours and something is."""
    program = words[0].rpartition("/")[2]
    for module, name in MODULES.items():
        if (re.sub(r"python[\d.]*", "python", program), *words[1:3]) == module:
            program, words = name, words[2:]
            break
    match program:
        case "make":
            return _make_problem(words[1:])
        case "launch":
            return _parser_problem(launch_cli.build_parser(), words[1:])
        case "cluster":
            return _parser_problem(cluster_cli.build_parser(), words[1:])
        case "loadtests":
            return _parser_problem(loadtests_cli.build_parser(), words[1:])
        case _:
            return None


def make_targets() -> set[str]:
    """The targets that the Makefile declares."""
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def option_strings(parser: argparse.ArgumentParser) -> set[str]:
    """Every spelling of every flag of a parser."""
    return {option for action in parser._actions for option in action.option_strings}


def _make_problem(words: list[str]) -> str | None:
    targets = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if not word.startswith("-") and before not in {"-C", "-f"} and "=" not in word
    ]
    unknown = set(targets) - make_targets()
    return f"make has no target {', '.join(sorted(unknown))}" if unknown else None


def _parser_problem(parser: argparse.ArgumentParser, words: list[str]) -> str | None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and words:
            if words[0] in action.choices:
                return _parser_problem(action.choices[words[0]], words[1:])
            if not words[0].startswith("-"):
                return f"{parser.prog} has no command {words[0]}"
    known = option_strings(parser)
    for word in words:
        flag = word.partition("=")[0]
        if flag.startswith("-") and flag not in known and not flag.lstrip("-")[:1].isdigit():
            return f"{parser.prog} has no flag {flag}"
    return None
