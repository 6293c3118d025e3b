"""MessagePack, as far as messages of executor processes use it. No package is needed."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_DEPTH = 32


class Malformed(ValueError):
    """Bytes that are not MessagePack."""


def pack(value: Any) -> bytes:
    """A value as MessagePack. An array of numpy is one ``bin`` of its little-endian values.

    >>> pack({"id": 7, "ok": True}).hex()
    '82a2696407a26f6bc3'
    """
    out = bytearray()
    _pack(value, out)
    return bytes(out)


def _pack(value: Any, out: bytearray) -> None:
    if value is None:
        out.append(0xC0)
    elif isinstance(value, bool):
        out.append(0xC3 if value else 0xC2)
    elif isinstance(value, int):
        _pack_int(value, out)
    elif isinstance(value, float):
        out += struct.pack(">Bd", 0xCB, value)
    elif isinstance(value, str):
        data = value.encode("utf-8", "replace")
        _head(out, len(data), 0xA0, 32, (0xD9, 0xDA, 0xDB))
        out += data
    elif isinstance(value, np.ndarray):
        _pack(value.astype(value.dtype.newbyteorder("<")).tobytes(), out)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        _head(out, len(value), 0, 0, (0xC4, 0xC5, 0xC6))
        out += value
    elif isinstance(value, (list, tuple)):
        _head(out, len(value), 0x90, 16, (None, 0xDC, 0xDD))
        for element in value:
            _pack(element, out)
    elif isinstance(value, dict):
        _head(out, len(value), 0x80, 16, (None, 0xDE, 0xDF))
        for key, element in value.items():
            _pack(key, out)
            _pack(element, out)
    else:
        raise TypeError(f"{type(value).__name__} has no form in MessagePack")


def _pack_int(value: int, out: bytearray) -> None:
    if 0 <= value < 128 or -32 <= value < 0:
        out += struct.pack(">B" if value >= 0 else ">b", value)
    elif value >= 0:
        out += struct.pack(">BQ", 0xCF, value)
    else:
        out += struct.pack(">Bq", 0xD3, value)


def _head(out: bytearray, size: int, fix: int, below: int, codes: tuple[int | None, int, int]) -> None:
    """Type and size, in the shortest form that there is."""
    if size < below:
        out.append(fix | size)
    elif codes[0] is not None and size < 1 << 8:
        out += struct.pack(">BB", codes[0], size)
    elif size < 1 << 16:
        out += struct.pack(">BH", codes[1], size)
    else:
        out += struct.pack(">BI", codes[2], size)


def unpack(data: bytes | memoryview) -> Any:
    """The value of MessagePack bytes; Malformed if they are cut short or have a rest.

    >>> unpack(pack({"a": [1, -2, 2.5, "x", b"y", None, False]}))
    {'a': [1, -2, 2.5, 'x', b'y', None, False]}
    """
    reader = _Reader(bytes(data))
    try:
        value = reader.value(0)
    except (IndexError, struct.error, UnicodeDecodeError, TypeError) as error:
        raise Malformed(f"is not MessagePack at byte {reader.at}") from error
    if reader.at != len(data):
        raise Malformed(f"has {len(data) - reader.at} bytes after its end")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise IndexError
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form: str) -> Any:
        return struct.unpack(">" + form, self.take(struct.calcsize(form)))[0]

    def value(self, depth: int) -> Any:
        if depth > _DEPTH:
            raise IndexError
        code = self.take(1)[0]
        if code < 0x80:
            return code
        if code >= 0xE0:
            return code - 256
        if code < 0x90:
            return self.map(code & 15, depth)
        if code < 0xA0:
            return self.list(code & 15, depth)
        if code < 0xC0:
            return self.take(code & 31).decode("utf-8", "surrogateescape")
        if code in _PLAIN:
            return _PLAIN[code]
        if code in _NUMBERS:
            return self.number(_NUMBERS[code])
        if code in _SIZED:
            form, kind = _SIZED[code]
            size = self.number(form)
            if kind == "str":
                return self.take(size).decode("utf-8", "surrogateescape")
            if kind == "bin":
                return self.take(size)
            return self.list(size, depth) if kind == "list" else self.map(size, depth)
        raise IndexError

    def list(self, count: int, depth: int) -> list[Any]:
        if count > len(self.data) - self.at:
            raise IndexError
        return [self.value(depth + 1) for _ in range(count)]

    def map(self, count: int, depth: int) -> dict[Any, Any]:
        if count > len(self.data) - self.at:
            raise IndexError
        return {self.value(depth + 1): self.value(depth + 1) for _ in range(count)}


_PLAIN = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    0xCA: "f",
    0xCB: "d",
    0xCC: "B",
    0xCD: "H",
    0xCE: "I",
    0xCF: "Q",
    0xD0: "b",
    0xD1: "h",
    0xD2: "i",
    0xD3: "q",
}
_SIZED = {
    0xC4: ("B", "bin"),
    0xC5: ("H", "bin"),
    0xC6: ("I", "bin"),
    0xD9: ("B", "str"),
    0xDA: ("H", "str"),
    0xDB: ("I", "str"),
    0xDC: ("H", "list"),
    0xDD: ("I", "list"),
    0xDE: ("H", "map"),
    0xDF: ("I", "map"),
}
