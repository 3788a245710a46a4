"""The fields of the config structs as settings: each with its spellings, its limit, its text."""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import inspect

from cluster.config import ClusterConfig, Section
from cluster.errors import ConfigError

ENVIRONMENT_PREFIX = "QUADRIGA_"
_TRUTHS = {"true": True, "yes": True, "on": True, "1": True,
           "false": False, "no": False, "off": False, "0": False}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """One field of one section, and how it is spelled, described and limited."""

    section: str
    name: str
    heading: str
    description: str
    default: Any
    more_flags: tuple[str, ...]
    kind: inspect.Type
    """The type without `None`, which means "work it out"."""
    annotation: Any

    @property
    def flags(self) -> tuple[str, ...]:
        """Its spellings on the command line, the chief one first."""
        return ("--" + self.name.replace("_", "-"), *self.more_flags)

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return ENVIRONMENT_PREFIX + self.name.upper()

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return isinstance(self.kind, inspect.BoolType)

    @property
    def is_list(self) -> bool:
        """Whether it may be given several times."""
        return isinstance(self.kind, inspect.ListType)

    @property
    def placeholder(self) -> str:
        """What stands for its value in the help: `N`, `SECONDS`, or the last word of its name."""
        match self.kind:
            case inspect.IntType():
                return "N"
            case inspect.FloatType():
                return "SECONDS" if self.description.startswith("Seconds") else "X"
            case _:
                return self.name.split("_")[-1].upper()

    @property
    def limit(self) -> str:
        """What a value must be, in words, e.g. `a whole number from 1 to 1024`."""
        return _limit(self.kind)

    def parse(self, text: str, source: str) -> Any:
        """The value that `text` means; `source` names it in the error.

        Raises ConfigError if it is not a value of this setting.
        """
        try:
            value = _parse(self.kind, text)
        except (ValueError, KeyError):
            raise self._refusal(text, source) from None
        return self.check(value, source)

    def check(self, value: Any, source: str) -> Any:
        """`value` itself, if it is within the limits. Raises ConfigError otherwise."""
        if self.is_list and isinstance(value, list):
            value = [item for given in value for item in _items(given)]
        try:
            checked = msgspec.convert(value, self.annotation)
        except msgspec.ValidationError:
            raise self._refusal(value, source) from None
        if isinstance(checked, float) and not math.isfinite(checked):
            raise self._refusal(value, source)
        return checked

    def _refusal(self, value: Any, source: str) -> ConfigError:
        return ConfigError(f"{source} must be {self.limit}, not {value!r}")


def list_settings() -> Iterator[Setting]:
    """Every setting of the cluster, section by section."""
    for section in msgspec.structs.fields(ClusterConfig):
        if not (isinstance(section.type, type) and issubclass(section.type, Section)):
            continue
        types = inspect.type_info(section.type)
        assert isinstance(types, inspect.StructType)
        heading = (section.type.__doc__ or "").strip().rstrip(".")
        for field, described in zip(
            msgspec.structs.fields(section.type), types.fields, strict=True
        ):
            yield _setting(section.name, heading, field, described.type)


def _setting(
    section: str, heading: str, field: msgspec.structs.FieldInfo, kind: inspect.Type
) -> Setting:
    extra: dict[str, Any] = {}
    while isinstance(kind, (inspect.Metadata, inspect.UnionType)):
        if isinstance(kind, inspect.Metadata):
            extra |= kind.extra_json_schema or {}
            kind = kind.type
        else:
            kind = next(kind for kind in kind.types if not isinstance(kind, inspect.NoneType))
    has_factory = field.default_factory is not msgspec.NODEFAULT
    return Setting(
        section=section,
        name=field.name,
        heading=heading,
        description=extra["description"],
        default=field.default_factory() if has_factory else field.default,
        more_flags=tuple(extra.get("flags", ())),
        kind=kind,
        annotation=field.type,
    )


def _parse(kind: inspect.Type, text: str) -> Any:
    match kind:
        case inspect.BoolType():
            return _TRUTHS[text.strip().lower()]
        case inspect.IntType():
            return int(text)
        case inspect.FloatType():
            return float(text)
        case inspect.ListType():
            is_json = text.lstrip().startswith("[")
            return [text] if is_json else [item.strip() for item in text.split(",")]
        case _:
            return text


def _items(given: Any) -> list[Any]:
    """One item of a list, or all where it is a list in JSON, as vLLM has it."""
    if isinstance(given, str) and given.lstrip().startswith("["):
        with contextlib.suppress(msgspec.MsgspecError):
            return msgspec.json.decode(given, type=list[str])
    return [given]


def _limit(kind: inspect.Type) -> str:
    match kind:
        case inspect.BoolType():
            return "true or false"
        case inspect.LiteralType():
            return "one of " + ", ".join(map(str, kind.values))
        case inspect.IntType():
            return "a whole number" + _bounds(kind)
        case inspect.FloatType():
            return "a number" + _bounds(kind)
        case inspect.ListType():
            return "a list of texts"
        case inspect.StrType(pattern=str()):
            return f"a text that matches {kind.pattern}"
        case _:
            return "a text"


def _bounds(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.ge is not None and kind.le is not None:
        return f" from {kind.ge} to {kind.le}"
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    bounds = [
        f"{word} {getattr(kind, bound)}"
        for bound, word in words.items()
        if getattr(kind, bound) is not None
    ]
    return " " + " and ".join(bounds) if bounds else ""
