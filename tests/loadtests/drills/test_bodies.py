import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.drills.bodies import KINDS, VARIANTS, choose_stop_string, make_bodies
from loadtests.drills.history import body_key


def test_there_is_every_kind_and_no_two_bodies_are_the_same() -> None:
    bodies = make_bodies()
    assert {body.kind for body in bodies} == set(KINDS)
    assert len({body_key(body.path, body.fields) for body in bodies}) == VARIANTS * len(KINDS)


def test_every_body_has_one_right_answer() -> None:
    for body in make_bodies():
        assert body.fields["temperature"] == 0 or "seed" in body.fields


def test_only_the_chosen_kinds_are_made_and_an_unknown_one_is_named() -> None:
    assert [body.kind for body in make_bodies(["chat"], variants=2)] == ["chat", "chat"]
    with pytest.raises(ValueError, match="not poem"):
        make_bodies(["chat", "poem"])


@given(st.text(max_size=200))
def test_a_stop_string_is_in_the_text_but_not_early(text: str) -> None:
    found = choose_stop_string(text)
    if found is not None:
        assert text.find(found) >= len(text) // 4
        assert found.strip() == found != ""


def test_an_ordinary_text_has_a_stop_string() -> None:
    assert choose_stop_string("The quick brown fox jumps over the lazy dog, and is gone.")
