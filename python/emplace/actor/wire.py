"""How a message is written: a MessagePack map of its fields (docs/reference/wire_format.md, "A message").

A message is a dataclass whose annotations name the kinds of the document's tables. The reader skips unknown
fields and leaves missing ones at their defaults; it refuses values outside the bounds of the format.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

import msgpack  # type: ignore[import-untyped,unused-ignore]
import numpy as np
from numpy.typing import NDArray

from emplace.errors import EmplaceError

MAX_DEPTH = 32
MAX_U64 = 2**64 - 1
MAX_ELEMENTS = 65_536  # Strings or structs of one list.


class WireError(EmplaceError):
    """The bytes are no message of this format."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(where, what, "use the same release on both ends")


class Section(NamedTuple):
    """A part of the message's bulk frame [bytes]."""

    offset: int = 0
    size: int = 0


U8 = Annotated[int, "u8"]
U16 = Annotated[int, "u16"]
U32 = Annotated[int, "u32"]
U64 = Annotated[int, "u64"]
I64 = Annotated[int, "i64"]
F64 = Annotated[float, "f64"]
Bool = Annotated[bool, "bool"]
Text = Annotated[str, "text"]
Bulk = Annotated[Section, "section"]
Texts = Annotated[list[str], "text[]"]
U8s = Annotated[NDArray[np.uint8], "u8[]"]
U16s = Annotated[NDArray[np.uint16], "u16[]"]
U32s = Annotated[NDArray[np.uint32], "u32[]"]
U64s = Annotated[NDArray[np.uint64], "u64[]"]
I64s = Annotated[NDArray[np.int64], "i64[]"]
F32s = Annotated[NDArray[np.float32], "f32[]"]
F64s = Annotated[NDArray[np.float64], "f64[]"]

_DTYPES: dict[str, np.dtype[Any]] = {
    f"{kind}[]": np.dtype(code)
    for kind, code in {
        "u8": "u1",
        "u16": "<u2",
        "u32": "<u4",
        "u64": "<u8",
        "i64": "<i8",
        "f32": "<f4",
        "f64": "<f8",
    }.items()
}
_LIMITS = {
    "u8": (0, 2**8 - 1),
    "u16": (0, 2**16 - 1),
    "u32": (0, 2**32 - 1),
    "u64": (0, 2**64 - 1),
    "i64": (-(2**63), 2**63 - 1),
}


class Message:
    """Base of messages and of structs inside them."""

    NUMBER: ClassVar[int] = -1  # Number in the register; -1: a struct inside other messages.
    FIELDS: ClassVar[list[tuple[str, str, type[Message] | None]]] = []  # Name, kind, class of a struct.

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and encode(self) == encode(other)

    __hash__ = None  # type: ignore[assignment]


M = TypeVar("M", bound=Message)
REGISTER: dict[int, type[Message]] = {}


def none_of(dtype: type[Any]) -> Any:
    """The default of a vector: no elements."""
    return dataclasses.field(default_factory=lambda: np.zeros(0, dtype))


@typing.dataclass_transform(eq_default=False, field_specifiers=(dataclasses.field,))
def message(number: int = -1) -> Callable[[type[M]], type[M]]:
    """Makes a class of annotated fields a message of the register, or (without a number) a struct of other
    messages.
    """

    def decorate(cls: type[M]) -> type[M]:
        made = dataclasses.dataclass(eq=False)(cls)
        made.NUMBER = number
        hints = typing.get_type_hints(made, include_extras=True)
        names = [field.name for field in dataclasses.fields(made)]  # type: ignore[arg-type]
        made.FIELDS = [(name, *_kind(hints[name])) for name in names]
        if number >= 0:
            REGISTER[number] = made
        return made

    return decorate


def _kind(hint: Any) -> tuple[str, type[Message] | None]:
    if typing.get_origin(hint) is Annotated:
        return str(hint.__metadata__[0]), None
    if typing.get_origin(hint) is list:
        (inner,) = typing.get_args(hint)
        return f"{inner.__name__}[]", inner
    return hint.__name__, hint


def type_name(number: int) -> str:
    """The name of a message by its number."""
    return REGISTER[number].__name__ if number in REGISTER else f"type {number}"


# Writing.


def encode(value: Message) -> bytes:
    """The body of a message."""
    packed: bytes = msgpack.packb(_plain(value), use_bin_type=True, unicode_errors="surrogateescape")
    return packed


def _plain(value: Message) -> dict[str, Any]:
    return {name: _plain_field(value, name, kind) for name, kind, _ in value.FIELDS}


def _plain_field(owner: Message, name: str, kind: str) -> Any:
    value = getattr(owner, name)
    if kind in _DTYPES:
        return np.ascontiguousarray(value, _DTYPES[kind]).tobytes()
    if kind in _LIMITS:
        low, high = _LIMITS[kind]
        number = int(value)
        if not low <= number <= high:
            raise EmplaceError(
                f"{type(owner).__name__}.{name}", f"{number} is no {kind}", f"use {low} to {high}"
            )
        return number
    if kind == "f64":
        # A whole number travels as an integer, as msgpack-cxx writes it.
        real = float(value)
        whole = real.is_integer() and -(2.0**63) <= real < 2.0**64
        return int(real) if whole else real
    if kind in ("bool", "text"):
        return value
    if kind == "section":
        return list(value)
    if isinstance(value, list):
        return [element if isinstance(element, str) else _plain(element) for element in value]
    return _plain(value)


# Reading.


def unpack(data: bytes | memoryview, where: str) -> Any:
    """One MessagePack value that fills `data`."""
    try:
        value = msgpack.unpackb(data, raw=False, strict_map_key=False, unicode_errors="surrogateescape")
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise WireError(where, f"is not MessagePack ({error or type(error).__name__})") from None
    if _deeper(value, MAX_DEPTH):
        raise WireError(where, f"is nested deeper than {MAX_DEPTH} levels")
    return value


def _deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, (list, dict)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper(one, levels - 1) for one in inner)


def decode(cls: type[M], body: bytes | memoryview) -> M:
    """The message of a body. Raises WireError."""
    return _struct(cls, unpack(body, cls.__name__), cls.__name__)


def _struct(cls: type[M], values: Any, where: str) -> M:
    if not isinstance(values, dict):
        raise WireError(where, "is not a map")
    found = cls()
    for name, kind, inner in cls.FIELDS:
        if name in values:
            setattr(found, name, _read(kind, inner, values[name], f"{where}.{name}"))
    return found


def _read(kind: str, inner: type[Message] | None, value: Any, where: str) -> Any:
    if kind in _DTYPES:
        dtype = _DTYPES[kind]
        if isinstance(value, bytes) and len(value) % dtype.itemsize == 0:
            return np.frombuffer(value, dtype)
    elif kind in _LIMITS:
        if type(value) is int and _LIMITS[kind][0] <= value <= _LIMITS[kind][1]:
            return value
    elif kind == "f64":
        if type(value) in (int, float):
            return float(value)
    elif kind == "bool":
        if type(value) is bool:
            return value
    elif kind == "text":
        if isinstance(value, str):
            return value
    elif kind == "section":
        if (
            isinstance(value, list)
            and len(value) == 2
            and all(type(n) is int and 0 <= n < 2**64 for n in value)
        ):
            return Section(*value)
    elif kind.endswith("[]"):
        if isinstance(value, list) and len(value) <= MAX_ELEMENTS:
            return [_read(kind[:-2], inner, one, f"{where}[{i}]") for i, one in enumerate(value)]
    elif inner is not None:
        return _struct(inner, value, where)
    raise WireError(where, f"is no {kind}")


def section_of(bulk: memoryview, section: Section, where: str) -> memoryview:
    """The bytes of a section. Raises WireError if it exceeds the frame."""
    if section.offset > len(bulk) or section.size > len(bulk) - section.offset:
        raise WireError(where, f"a section of {section.size} bytes at {section.offset} of {len(bulk)}")
    return bulk[section.offset : section.offset + section.size]
