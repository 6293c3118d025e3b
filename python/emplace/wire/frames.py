"""How messages share frames: envelopes, records of a batch, and three frames for a large message.

docs/reference/wire_format.md, "A message" and "Frames".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from emplace.wire.codec import MAX_U64, M, Message, Section, WireError, decode, encode, pack, unpack

VERSION = 3  # The version of the wire format that is sent.
OLDEST_VERSION = 3  # The oldest version that is understood.
CONTROL, DATA = 0, 1  # Planes: one connection each.
FIRST_RUNTIME_TYPE = 0xFF00
BATCH_BYTES = 64 << 10
LARGE_BYTES = 64 << 10  # A body or bulk of this size travels as three frames.
MAX_FRAME_BYTES = 64 << 20
SIZES = struct.Struct("<III")  # Bytes of the envelope, the body and the bulk of a record.


def plane_of(number: int) -> int:
    """The connection on which a message travels."""
    return CONTROL if 64 <= number < 128 or number >= FIRST_RUNTIME_TYPE else DATA


def keeps_latest_only(number: int) -> bool:
    """Whether a newer message of the same sender, receiver and type replaces one that waits."""
    return 128 <= number < 160


@dataclass(frozen=True)
class Envelope:
    """The header of a message."""

    type: int
    sender: int = 0  # XXH3-64 of the actor's name; 0: the node itself.
    to: int = 0
    seq: int = 0
    trace: int = 0
    version: int = VERSION

    def pack(self) -> bytes:
        return pack([self.version, self.type, self.sender, self.to, self.seq, 0, self.trace])

    @classmethod
    def unpack(cls, data: bytes | memoryview) -> Envelope:
        """Elements after the seventh, of a newer peer, are skipped. Raises WireError."""
        values = unpack(data, "envelope")
        if not isinstance(values, list) or len(values) < 7:
            raise WireError("envelope", "is not [version, type, from, to, seq, 0, trace]")
        version, number, sender, to, seq, _, trace = values[:7]
        limits = ((version, 255), (number, 0xFFFF), *((one, MAX_U64) for one in (sender, to, seq, trace)))
        if any(type(value) is not int or not 0 <= value <= limit for value, limit in limits) or version == 0:
            raise WireError("envelope", "has an element out of range")
        return cls(number, sender, to, seq, trace, version)


@dataclass(frozen=True)
class Incoming:
    """A received message; its bytes are views into the frame."""

    envelope: Envelope
    body: memoryview
    bulk: memoryview

    @classmethod
    def of(cls, parts: Sequence[bytes | memoryview]) -> Incoming:
        """The message of three parts: envelope, body, bulk. Raises WireError."""
        envelope, body, bulk = parts
        return cls(Envelope.unpack(envelope), memoryview(body), memoryview(bulk))

    @property
    def number(self) -> int:
        """Its type, a number of the register."""
        return self.envelope.type

    def read(self, cls: type[M]) -> M:
        """The message, whose type is that of `cls`. Raises WireError."""
        return decode(cls, self.body)

    def section(self, section: Section) -> memoryview:
        """The bytes of a section. Raises WireError if it exceeds the frame."""
        offset, size = section
        if offset > len(self.bulk) or size > len(self.bulk) - offset:
            raise WireError("bulk frame", f"a section of {size} bytes at {offset} of {len(self.bulk)}")
        return self.bulk[offset : offset + size]


@dataclass(frozen=True)
class Outgoing:
    """A message that waits to be sent."""

    envelope: Envelope
    body: bytes
    bulk: bytes = b""

    @classmethod
    def of(cls, message: Message, sender: int = 0, to: int = 0, bulk: bytes = b"") -> Outgoing:
        return cls(Envelope(message.NUMBER, sender, to), encode(message), bulk)

    def is_large(self) -> bool:
        return len(self.body) >= LARGE_BYTES or len(self.bulk) >= LARGE_BYTES

    def record(self) -> bytes:
        head = self.envelope.pack()
        return SIZES.pack(len(head), len(self.body), len(self.bulk)) + head + self.body + self.bulk

    def parts(self) -> list[bytes]:
        """The ZeroMQ message of this message alone."""
        return [self.envelope.pack(), self.body, self.bulk] if self.is_large() else [self.record()]


def messages_of(parts: Sequence[bytes]) -> Iterator[Incoming]:
    """The messages of a ZeroMQ message. Raises WireError at the first damage, after those before it."""
    if len(parts) == 3:
        yield Incoming.of(parts)
        return
    if len(parts) != 1:
        raise WireError("frame", f"has {len(parts)} parts, not 1 or 3")
    rest = memoryview(parts[0])
    while rest:
        if len(rest) < SIZES.size:
            raise WireError("frame", "ends within the sizes of a record")
        *bounds, end = accumulate(SIZES.unpack_from(rest), initial=SIZES.size)
        if end > len(rest):
            raise WireError("frame", "ends within a record")
        yield Incoming.of([rest[a:b] for a, b in pairwise((*bounds, end))])
        rest = rest[end:]
