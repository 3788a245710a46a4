"""docs/configuration.md is what the settings say."""

from cluster.launch.cli import build_parser
from cluster.launch.settings import list_settings
from tests.architecture.commands import option_strings
from tests.architecture.configuration_document import PATH, render


def test_the_page_is_the_one_made_from_the_settings() -> None:
    assert PATH.read_text() == render(), "run python -m tests.architecture.configuration_document"


def test_every_flag_on_the_page_is_one_of_the_launch_command() -> None:
    known = option_strings(build_parser())
    for setting in list_settings():
        assert set(setting.flags) <= known, setting.name
        if setting.is_switch:
            assert "--no-" + setting.name.replace("_", "-") in known, setting.name


def test_every_setting_says_what_it_is() -> None:
    for setting in list_settings():
        assert setting.description.endswith((".", "…")), setting.name
