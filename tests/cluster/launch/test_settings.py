"""Settings have flags, limits and texts, and refuse what is out of their limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.errors import ConfigError
from cluster.launch.settings import Setting, list_settings

SETTINGS = {setting.name: setting for setting in list_settings()}


def test_no_flag_is_spelled_twice() -> None:
    flags = [flag for setting in SETTINGS.values() for flag in setting.flags]
    assert len(flags) == len(set(flags))
    assert len(SETTINGS) == len(list(list_settings()))


def test_every_setting_has_a_description_that_is_a_sentence() -> None:
    for setting in SETTINGS.values():
        assert setting.description.endswith("."), setting.name


def test_vllms_spellings_are_known() -> None:
    assert SETTINGS["data_parallel_size"].flags == ("--data-parallel-size", "--dp", "-dp")
    assert "--api-server-count" in SETTINGS["frontends"].flags


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("max_num_seqs", "7", 7),
        ("hang_timeout", "2", 2.0),
        ("enable_prefix_caching", "off", False),
        ("check_invariants", "TRUE", True),
        ("api_key", "one, two", ["one", "two"]),
        ("model", "null", "null"),
        ("frontends", "4", 4),
    ],
)
def test_a_text_becomes_a_value_of_the_settings_type(name: str, text: str, value: object) -> None:
    assert SETTINGS[name].parse(text, "here") == value


@pytest.mark.parametrize(
    ("name", "text", "limit"),
    [
        ("port", "70000", "a whole number from 0 to 65535"),
        ("port", "http", "a whole number from 0 to 65535"),
        ("max_num_batched_tokens", "0", "a whole number at least 1"),
        ("gpu_memory_utilization", "0", "a number above 0 and at most 1"),
        ("hang_timeout", "inf", "a number above 0"),
        ("hang_timeout", "nan", "a number above 0"),
        ("enable_prefix_caching", "maybe", "true or false"),
        ("device", "tpu", "one of auto, cpu, cuda"),
        ("cluster_id", "../up", "a text that matches"),
    ],
)
def test_a_value_out_of_its_limits_is_refused_naming_source_and_limit(
    name: str, text: str, limit: str
) -> None:
    with pytest.raises(ConfigError, match=r"^--here must be ") as caught:
        SETTINGS[name].parse(text, "--here")
    assert limit in str(caught.value)
    assert "\n" not in str(caught.value)


@given(text=st.text(max_size=20), setting=st.sampled_from(list(SETTINGS.values())))
def test_any_text_is_a_value_or_a_config_error(text: str, setting: Setting) -> None:
    try:
        value = setting.parse(text, "--here")
    except ConfigError:
        return
    assert setting.check(value, "again") == value
