"""Messages over the socket that an executor process shares with its parent (``launcher/worker/channel.h``).

A message is a record ``[u32 envelope, u32 body, u32 bulk sizes] envelope body bulk``, little-endian; the
envelope is ``[version, type, from, to, seq, 0, trace]``, the body a map of fields, the bulk raw bytes.
"""

from __future__ import annotations

import dataclasses
import socket
import struct
import threading
from typing import Any

import numpy as np

from emplace.torch_executor import msgpack

VERSION = 3
_HEAD = struct.Struct("<III")
_MOST = 2 << 30
#: Numbers of the messages (``messages/type_ids.h``).
PREPARE, RUN, RAN, TRACED, VERIFIED, PROFILED = 15, 16, 17, 19, 20, 21
READY, REFUSED, BEAT, FAILED = 83, 84, 85, 91
#: Codes of errors (``base/result.h``).
INVALID, OUT_OF_MEMORY, RUN_FAILED, UNSUPPORTED = 1, 2, 7, 8


class PeerGone(Exception):
    """The other end of the socket is closed."""


@dataclasses.dataclass(frozen=True)
class Message:
    """A message that was received."""

    type: int
    body: dict[str, Any]
    bulk: bytes

    def section(self, name: str) -> bytes:
        """The part of the bulk that a field names."""
        offset, size = self.body.get(name, (0, 0))
        if offset + size > len(self.bulk):
            raise msgpack.Malformed(f"names {size} bytes at {offset} of {len(self.bulk)}")
        return self.bulk[offset : offset + size]

    def vector(self, name: str, dtype: str) -> np.ndarray[Any, np.dtype[Any]]:
        """A field that is a vector of numbers."""
        return np.frombuffer(self.body.get(name, b""), np.dtype(dtype))


class Channel:
    """A stream socket. Threads: any number that send, one that receives."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._socket.setblocking(True)
        self._sending = threading.Lock()
        self._received = bytearray()

    def send(self, type: int, body: dict[str, Any], bulk: bytes = b"") -> None:
        """Sends a message; PeerGone if the peer has closed its end."""
        envelope = msgpack.pack([VERSION, type, 0, 0, 0, 0, 0])
        packed = msgpack.pack(body)
        try:
            with self._sending:
                self._socket.sendall(
                    _HEAD.pack(len(envelope), len(packed), len(bulk)) + envelope + packed + bulk
                )
        except OSError as error:
            raise PeerGone from error

    def receive(self) -> Message:
        """The next message; PeerGone if the peer has closed its end, Malformed if it breaks the format."""
        while True:
            message = self._next()
            if message is not None:
                return message
            try:
                got = self._socket.recv(1 << 18)
            except OSError as error:
                raise PeerGone from error
            if not got:
                raise PeerGone
            self._received += got

    def _next(self) -> Message | None:
        if len(self._received) < _HEAD.size:
            return None
        sizes = _HEAD.unpack_from(self._received)
        if sum(sizes) > _MOST:
            raise msgpack.Malformed("is larger than a message can be")
        if len(self._received) < _HEAD.size + sum(sizes):
            return None
        at, parts = _HEAD.size, []
        for size in sizes:
            parts.append(bytes(self._received[at : at + size]))
            at += size
        del self._received[:at]
        envelope, body = msgpack.unpack(parts[0]), msgpack.unpack(parts[1])
        if not isinstance(envelope, list) or len(envelope) < 7 or not isinstance(body, dict):
            raise msgpack.Malformed("is no message")
        return Message(int(envelope[1]), body, parts[2])
