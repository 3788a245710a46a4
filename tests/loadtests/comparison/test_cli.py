import pytest

from loadtests.cli import COMMANDS, main
from loadtests.comparison.cli import DEFAULT_POLICIES, POLICY_NAMES


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_its_arguments(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: python -m loadtests {name} [-h]")
    assert "[--" in shown


def test_launch_knows_the_policies_that_are_compared() -> None:
    assert set(DEFAULT_POLICIES) <= set(POLICY_NAMES)


@pytest.mark.parametrize(
    "flags",
    [["--policies", "best"], ["--loads", "uniform,heavy"], ["--rounds", "0"], ["--rate-factor", "0"]],
    ids=" ".join,
)  # fmt: skip
def test_wrong_flags_are_refused_by_name(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare-policies", *flags])
    assert ended.value.code == 2
    assert flags[0] in capsys.readouterr().err
