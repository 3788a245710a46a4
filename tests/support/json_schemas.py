"""A small family of JSON schemas whose texts are short, for properties of whatever makes such texts."""

from typing import Any

from hypothesis import strategies as st

Schema = dict[str, Any]

_NAMES = st.text("abcxyz_", min_size=1, max_size=4)
_LEAVES: st.SearchStrategy[Schema] = st.one_of(
    st.sampled_from([
        {"type": "boolean"}, {"type": "null"}, {"const": "the dog"}, {"enum": ["a", 1, None]},
        {"type": "string", "pattern": "^[a-c]{1,3}$"}, {"type": ["null", "boolean"]},
        {"type": "string", "format": "date"},
    ]),
    st.builds(lambda low, width: {"type": "integer", "minimum": low, "maximum": low + width},
              st.integers(-999, 999), st.integers(0, 500)),
    st.builds(lambda length: {"type": "string", "maxLength": length}, st.integers(0, 8)),
)  # fmt: skip


def _objects(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    properties = st.dictionaries(_NAMES, inner, max_size=3)
    return properties.flatmap(
        lambda known: st.lists(st.sampled_from(sorted(known)), unique=True).map(
            lambda required: {
                "type": "object", "properties": known, "required": required,
                "additionalProperties": False,
            }
        ) if known else st.just({"type": "object", "additionalProperties": False})
    )  # fmt: skip


def _arrays(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.builds(
        lambda items, least, more: {
            "type": "array", "items": items, "minItems": least, "maxItems": least + more,
        },
        inner, st.integers(0, 2), st.integers(0, 2),
    )  # fmt: skip


json_schemas: st.SearchStrategy[Schema] = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        _objects(inner), _arrays(inner), st.builds(lambda a, b: {"anyOf": [a, b]}, inner, inner)
    ),
    max_leaves=5,
)
"""Each is one that the grammar library enforces whole."""
