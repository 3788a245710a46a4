import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontend.tools.json_scanner import JsonScanner, Progress
from tests.frontend.tools.cutting import cut

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(), st.floats(allow_nan=False, allow_infinity=False)
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)
CONTAINERS = st.one_of(st.text(), st.lists(VALUES), st.dictionaries(st.text(), VALUES))
JSON = st.builds(json.dumps, CONTAINERS, indent=st.none() | st.just(1), ensure_ascii=st.booleans())
NEARLY_JSON = st.text('{}[]",:\\ 1-.eEtruflasn', max_size=12)


@settings(deadline=None)
@given(cut(JSON))
def test_all_json_is_read_to_its_last_character(parts: list[str]) -> None:
    scanner = JsonScanner()
    for part in parts:
        assert scanner.scan(part) == len(part)
    assert scanner.progress is Progress.DONE


@settings(deadline=None)
@given(JSON, st.text(min_size=1))
def test_what_follows_the_value_is_not_read(text: str, more: str) -> None:
    scanner = JsonScanner()
    assert scanner.scan(text + more) == len(text)
    assert scanner.progress is Progress.DONE


@settings(deadline=None)
@given(cut(st.builds("{0[0]}{1}{0[1]}".format, st.sampled_from(["[]", "{}"]), NEARLY_JSON)))
def test_done_is_said_of_json_and_of_nothing_else(parts: list[str]) -> None:
    scanner = JsonScanner()
    read = "".join(part[: scanner.scan(part)] for part in parts)
    if scanner.progress is Progress.DONE:
        json.loads(read)
    else:
        with pytest.raises(json.JSONDecodeError):
            json.loads("".join(parts))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[1,]", "]"), ('{"a" 1}', "1"), ("{a", "a"), ("[01]", "]"), ("[tru]", "]"), ("12", "1"),
        ('"\\x"', "x"), ('"\\u12g4"', "g"), ('"line\n"', "\n"), ("[1}", "}"), ("[1 2]", "2"),
    ],
)  # fmt: skip
def test_it_stops_at_the_first_character_that_cannot_be(text: str, fault: str) -> None:
    scanner = JsonScanner()
    end = scanner.scan(text)
    assert scanner.progress is Progress.BROKEN
    assert text[end] == fault
