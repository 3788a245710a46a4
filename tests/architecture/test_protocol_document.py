"""docs/protocol.md describes the messages as they are: names, tags, fields in order, types, defaults."""

import enum
import re
import types
import typing
from collections.abc import Iterator
from typing import Any

import msgspec

from cluster.wire import messages
from cluster.wire.block_hash import HASH_SEED, hash_blocks
from cluster.wire.codec import Encoder
from cluster.wire.endpoints import BLOCKS_TOPIC, VIEW_TOPIC
from cluster.wire.messages import PROTOCOL_VERSION, AbortRequests, AnyMessage, Blob
from tests.architecture.repository import ROOT

PAGE = ROOT / "docs/protocol.md"
HEADING = re.compile(r"^### `(\w+)`(?:, type 0x([0-9a-f]{2}))?", re.MULTILINE)
FIELD_ROW = re.compile(r"^\| (\d+) \| `(\w+)` \| ([^|]+) \| [^|]+ \|$", re.MULTILINE)
VALUE_ROW = re.compile(r"^\| (\d+) \| `([A-Z_]+)` \| [^|]+ \|$", re.MULTILINE)

Definition = type[msgspec.Struct] | type[enum.IntEnum]


def parts(annotation: Any) -> Iterator[Any]:
    """An annotation and all that is in it."""
    yield annotation
    for argument in typing.get_args(annotation):
        yield from parts(argument)


def definitions() -> list[Definition]:
    """Every message, and every struct and enum that is a part of one."""
    found: list[Definition] = []
    pending: list[Any] = list(typing.get_args(AnyMessage))
    while pending:
        definition = pending.pop(0)
        if definition in found:
            continue
        found.append(definition)
        if issubclass(definition, msgspec.Struct):
            for annotation in typing.get_type_hints(definition).values():
                pending += [
                    part
                    for part in parts(annotation)
                    if isinstance(part, type) and issubclass(part, (msgspec.Struct, enum.IntEnum))
                ]
    return found


def type_in_words(annotation: Any) -> str:
    """How the page writes a type."""
    arguments = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    if origin is list:
        return f"array of {type_in_words(arguments[0])}"
    if origin is tuple:
        return f"({', '.join(map(type_in_words, arguments))})"
    if isinstance(annotation, types.UnionType):
        return " or ".join(map(type_in_words, arguments))
    if annotation is type(None):
        return "nil"
    if annotation is Blob:
        return "blob"
    return {str: "text", bytes: "binary"}.get(annotation) or str(annotation.__name__)


def default_in_words(field: msgspec.structs.FieldInfo) -> str:
    """What the page writes after the type of a field that may be missing at the end."""
    if field.default_factory is not msgspec.NODEFAULT:
        return f" = {field.default_factory()}"
    if field.default is msgspec.NODEFAULT:
        return ""
    written = {None: "nil", False: "false", True: "true", "": '""'}
    is_word = field.default is None or isinstance(field.default, (bool, str))
    return f" = {written[field.default] if is_word else field.default}"


def expected_fields(definition: type[msgspec.Struct]) -> list[tuple[str, str, str]]:
    """The rows of a struct: index in the array, name, type and default."""
    first = 0 if definition.__struct_config__.tag is None else 1  # the tag itself comes first
    hints = typing.get_type_hints(definition)
    return [
        (str(index), field.name, type_in_words(hints[field.name]) + default_in_words(field))
        for index, field in enumerate(msgspec.structs.fields(definition), first)
    ]


def sections() -> dict[str, tuple[str | None, str]]:
    """Tag and text of each section of the page that describes a message or a part."""
    page = PAGE.read_text()
    heads = list(HEADING.finditer(page))
    ends = [head.start() for head in heads[1:]] + [len(page)]
    return {
        head[1]: (head[2], page[head.end() : end]) for head, end in zip(heads, ends, strict=True)
    }


def test_the_page_describes_every_message_and_part_and_no_other() -> None:
    assert set(sections()) == {definition.__name__ for definition in definitions()}


def test_types_of_messages_are_those_of_the_code() -> None:
    tags = {name: int(tag, 16) for name, (tag, _) in sections().items() if tag is not None}
    assert tags == {
        definition.__name__: definition.__struct_config__.tag
        for definition in definitions()
        if issubclass(definition, msgspec.Struct) and definition.__struct_config__.tag is not None
    }


def test_fields_are_in_the_order_of_the_code_with_their_types_and_defaults() -> None:
    for definition in definitions():
        _, text = sections()[definition.__name__]
        if issubclass(definition, msgspec.Struct):
            assert FIELD_ROW.findall(text) == expected_fields(definition), definition.__name__


def test_values_of_enums_are_those_of_the_code() -> None:
    for definition in definitions():
        _, text = sections()[definition.__name__]
        if issubclass(definition, enum.IntEnum):
            expected = [(str(member.value), member.name) for member in definition]
            assert VALUE_ROW.findall(text) == expected, definition.__name__


def test_versions_and_topics_are_those_of_the_code() -> None:
    page = PAGE.read_text()
    assert f"version {PROTOCOL_VERSION[0]}.{PROTOCOL_VERSION[1]}" in page
    for topic in (VIEW_TOPIC, BLOCKS_TOPIC):
        assert f"`{topic.decode()}`" in page


def test_every_struct_of_the_module_travels() -> None:
    """A message that no link carries would be on nobody's page."""
    structs = {
        value
        for value in vars(messages).values()
        if isinstance(value, type) and issubclass(value, messages.Message)
    }
    assert structs - {messages.Message} <= set(definitions())


def test_the_example_of_a_block_hash_is_right() -> None:
    page = PAGE.read_text()
    assert hash_blocks(range(16), 16)[0].hex() in page
    assert HASH_SEED in page


def test_the_example_of_frames_is_right() -> None:
    kind, payload = Encoder().encode(AbortRequests(0, 1, 7, ["cmpl-1"]))
    assert f"[{bytes(kind).hex()}] [{bytes(payload).hex(' ')}]" in PAGE.read_text()
