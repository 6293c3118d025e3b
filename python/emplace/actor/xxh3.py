"""XXH3-64, the hash that names actors and checks parameters, by the specification of xxHash 0.8.

Actor names are short and hashed once. Parameters are long: there each block of 1 KiB is a few numpy calls.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_MASK = (1 << 64) - 1
_P32_1, _P32_2, _P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_P64_1, _P64_2, _P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P64_4, _P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_STRIPE, _STRIPES = 64, 16  # Bytes of a stripe; stripes of a block.


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _swap64(value: int) -> int:
    return int.from_bytes(value.to_bytes(8, "little"), "big")


def _fold(a: int, b: int) -> int:
    product = a * b
    return (product & _MASK) ^ (product >> 64)


def _avalanche(h: int) -> int:
    h ^= h >> 37
    h = h * 0x165667919E3779F9 & _MASK
    return h ^ h >> 32


def _avalanche64(h: int) -> int:
    h ^= h >> 33
    h = h * _P64_2 & _MASK
    h ^= h >> 29
    h = h * _P64_3 & _MASK
    return h ^ h >> 32


def _rotl(h: int, bits: int) -> int:
    return (h << bits | h >> (64 - bits)) & _MASK


def _mix16(data: bytes, at: int, secret: int) -> int:
    return _fold(_u64(data, at) ^ _u64(_SECRET, secret), _u64(data, at + 8) ^ _u64(_SECRET, secret + 8))


def _short(data: bytes) -> int:
    n = len(data)
    if n == 0:
        return _avalanche64(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))
    if n <= 3:
        combined = data[0] << 16 | data[n >> 1] << 24 | data[n - 1] | n << 8
        return _avalanche64(combined ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    if n <= 8:
        h = _u32(data, n - 4) + (_u32(data, 0) << 32) ^ _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        h ^= _rotl(h, 49) ^ _rotl(h, 24)
        h = h * 0x9FB21C651E98DF25 & _MASK
        h ^= (h >> 35) + n
        h = h * 0x9FB21C651E98DF25 & _MASK
        return h ^ h >> 28
    low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
    high = _u64(data, n - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
    return _avalanche(n + _swap64(low) + high + _fold(low, high) & _MASK)


def _middle(data: bytes) -> int:
    n = len(data)
    acc = n * _P64_1
    if n <= 128:
        for i in range((n - 1) // 32 + 1):
            acc += _mix16(data, 16 * i, 32 * i) + _mix16(data, n - 16 * (i + 1), 32 * i + 16)
        return _avalanche(acc & _MASK)
    for i in range(8):
        acc += _mix16(data, 16 * i, 16 * i)
    acc = _avalanche(acc & _MASK)
    for i in range(8, n // 16):
        acc += _mix16(data, 16 * i, 16 * (i - 8) + 3)
    acc += _mix16(data, n - 16, 136 - 17)
    return _avalanche(acc & _MASK)


def _secret_words(at: int, count: int = 8) -> NDArray[np.uint64]:
    return np.frombuffer(_SECRET, np.uint8)[at : at + 8 * count].copy().view("<u8").astype(np.uint64)


_KEYS = np.stack([_secret_words(8 * n) for n in range(_STRIPES)])  # [stripes, lanes]
_SCRAMBLE = _secret_words(192 - _STRIPE)
_LAST = _secret_words(192 - _STRIPE - 7)[None]
_NEIGHBOUR = np.array([1, 0, 3, 2, 5, 4, 7, 6])
_LOW = np.uint64(0xFFFFFFFF)
_32, _47, _PRIME = np.uint64(32), np.uint64(47), np.uint64(_P32_1)


def _added(stripes: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """What stripes [n, lanes] add to the accumulator; sums wrap."""
    keyed = stripes ^ keys
    products = (keyed & _LOW) * (keyed >> _32)
    total: NDArray[np.uint64] = products.sum(axis=0, dtype=np.uint64)
    neighbours: NDArray[np.uint64] = stripes[:, _NEIGHBOUR].sum(axis=0, dtype=np.uint64)
    return total + neighbours


def _long(data: bytes) -> int:
    acc = np.array([_P32_3, _P64_1, _P64_2, _P64_3, _P64_4, _P32_2, _P64_5, _P32_1], np.uint64)
    block = _STRIPE * _STRIPES
    blocks = (len(data) - 1) // block
    whole = np.frombuffer(data, "<u8", blocks * block // 8).reshape(blocks, _STRIPES, 8)
    for stripes in whole:
        acc = acc + _added(stripes, _KEYS)
        acc = (acc ^ (acc >> _47) ^ _SCRAMBLE) * _PRIME
    rest = (len(data) - 1 - blocks * block) // _STRIPE
    tail = np.frombuffer(data, "<u8", rest * 8, blocks * block).reshape(rest, 8)
    acc = acc + _added(tail, _KEYS[:rest])
    acc = acc + _added(np.frombuffer(data[-_STRIPE:], "<u8")[None], _LAST)
    lanes = [int(lane) for lane in acc]
    result = len(data) * _P64_1
    for i in range(4):
        result += _fold(
            lanes[2 * i] ^ _u64(_SECRET, 11 + 16 * i), lanes[2 * i + 1] ^ _u64(_SECRET, 19 + 16 * i)
        )
    return _avalanche(result & _MASK)


def xxh3_64(data: bytes) -> int:
    """XXH3-64 of `data` with seed 0."""
    if len(data) <= 16:
        return _short(data)
    return _middle(data) if len(data) <= 240 else _long(data)


def actor_id(name: str) -> int:
    """The number that addresses an actor on the wire; never 0, which addresses the node itself."""
    return xxh3_64(name.encode()) or 1
