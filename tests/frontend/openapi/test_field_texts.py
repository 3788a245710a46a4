"""Texts below fields."""

import msgspec

from frontend.openapi.field_texts import field_texts


class Base(msgspec.Struct):
    """Some fields."""

    told: int = 0
    """Of the base."""
    untold: int = 0
    replaced: int = 0
    """Before."""


class Derived(Base):
    """More of them."""

    own: int = 0
    """Two lines,
    not one."""
    replaced: int = 1
    """After."""


def test_the_texts_of_bases_are_kept_unless_the_field_is_told_anew() -> None:
    assert field_texts(Derived) == {
        "told": "Of the base.",
        "replaced": "After.",
        "own": "Two lines,\nnot one.",
    }
    assert field_texts(Base) == {"told": "Of the base.", "replaced": "Before."}


def test_what_is_built_in_has_no_texts() -> None:
    assert field_texts(int) == {}
