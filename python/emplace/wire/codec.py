"""How a message is written: a MessagePack map of its fields (docs/reference/wire_format.md, "A message").

A message is a dataclass whose annotations name the kinds of the document's tables. The reader skips unknown
fields and leaves missing ones at their defaults; it refuses values outside the bounds of the format.
"""

from __future__ import annotations

import dataclasses
import typing
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

_CODES = {"u8": "u1", "u16": "<u2", "u32": "<u4", "u64": "<u8", "i64": "<i8", "f32": "<f4", "f64": "<f8"}
_VECTORS: dict[str, np.dtype[Any]] = {f"{kind}[]": np.dtype(code) for kind, code in _CODES.items()}
_LIMITS = {kind: np.iinfo(_CODES[kind]) for kind in ("u8", "u16", "u32", "u64", "i64")}
_TYPES: dict[str, tuple[type, ...]] = {"f64": (float, int), "bool": (bool,), "text": (str,)}
REGISTER: dict[int, type[Message]] = {}


@typing.dataclass_transform(eq_default=False, field_specifiers=(dataclasses.field,))
class Message:
    """Base of messages, which have a number in the register, and of structs inside them, which have none."""

    NUMBER: ClassVar[int] = -1
    FIELDS: ClassVar[list[tuple[str, str, type[Message] | None]]] = []  # Name, kind, class of a struct.

    def __init_subclass__(cls, number: int = -1) -> None:
        dataclasses.dataclass(eq=False)(cls)
        hints = typing.get_type_hints(cls, include_extras=True)
        names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        cls.NUMBER, cls.FIELDS = number, [(name, *_kind(hints[name])) for name in names]
        if number >= 0:
            if number >= 1 << 16 or number in REGISTER:
                raise EmplaceError(
                    f"message {cls.__name__}",
                    f"has the number {number}, which is taken or above 65535",
                    "see docs/reference/wire_messages.md",
                )
            REGISTER[number] = cls

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and encode(self) == encode(other)

    __hash__ = None  # type: ignore[assignment]


M = TypeVar("M", bound=Message)


def none_of(dtype: type[Any]) -> Any:
    """The default of a vector: no elements."""
    return dataclasses.field(default_factory=lambda: np.zeros(0, dtype))


def _kind(hint: Any) -> tuple[str, type[Message] | None]:
    if typing.get_origin(hint) is Annotated:
        return str(hint.__metadata__[0]), None
    if typing.get_origin(hint) is list:
        (inner,) = typing.get_args(hint)
        return f"{inner.__name__}[]", inner
    return hint.__name__, hint


# Writing.


def encode(value: Message) -> bytes:
    """The body of a message. Raises EmplaceError for a number that does not fit its field."""
    return pack(_plain(value))


def pack(value: Any) -> bytes:
    """A value as MessagePack."""
    packed: bytes = msgpack.packb(value, unicode_errors="surrogateescape")
    return packed


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return {name: _plain_field(value, name, kind) for name, kind, _ in value.FIELDS}
    return value


def _plain_field(owner: Message, name: str, kind: str) -> Any:
    value = getattr(owner, name)
    if kind in _VECTORS:
        return np.ascontiguousarray(value, _VECTORS[kind]).tobytes()
    if kind in _LIMITS:
        limits, number = _LIMITS[kind], int(value)
        if not limits.min <= number <= limits.max:
            where = f"{type(owner).__name__}.{name}"
            raise EmplaceError(where, f"{number} is no {kind}", f"use {limits.min} to {limits.max}")
        return number
    if kind == "f64":
        # A whole number travels as an integer, as msgpack-cxx writes it.
        real = float(value)
        whole = real.is_integer() and -(2.0**63) <= real < 2.0**64
        return int(real) if whole else real
    return [_plain(element) for element in value] if isinstance(value, (list, tuple)) else _plain(value)


# Reading.


def unpack(data: bytes | memoryview, where: str) -> Any:
    """One MessagePack value that fills `data`. Raises WireError."""
    try:
        value = msgpack.unpackb(data, strict_map_key=False, unicode_errors="surrogateescape")
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
    read = {n: _read(k, inner, values[n], f"{where}.{n}") for n, k, inner in cls.FIELDS if n in values}
    return cls(**read)


def _read(kind: str, inner: type[Message] | None, value: Any, where: str) -> Any:
    if kind in _VECTORS:
        if isinstance(value, bytes) and len(value) % _VECTORS[kind].itemsize == 0:
            return np.frombuffer(value, _VECTORS[kind])
    elif kind in _LIMITS:
        if type(value) is int and _LIMITS[kind].min <= value <= _LIMITS[kind].max:
            return value
    elif kind in _TYPES:
        if type(value) in _TYPES[kind]:
            return _TYPES[kind][0](value)
    elif kind == "section":
        if isinstance(value, list) and len(value) == 2:
            return Section(*(_read("u64", None, part, where) for part in value))
    elif kind.endswith("[]"):
        if isinstance(value, list) and len(value) <= MAX_ELEMENTS:
            return [_read(kind[:-2], inner, one, f"{where}[{i}]") for i, one in enumerate(value)]
    elif inner is not None:
        return _struct(inner, value, where)
    raise WireError(where, f"is no {kind}")
