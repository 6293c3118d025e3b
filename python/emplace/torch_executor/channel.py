"""Messages over the socket that an executor process shares with its parent (``launcher/worker/channel.h``):
records, as they lie in a frame of many messages (docs/reference/wire_format.md, "Frames").
"""

from __future__ import annotations

import socket
import threading

from emplace.wire.codec import Message, WireError
from emplace.wire.frames import SIZES, Incoming, Outgoing

_MOST = 2 << 30
#: Codes of errors (``base/result.h``).
INVALID, RUN_FAILED, UNSUPPORTED = 1, 7, 8


class Refused(Exception):
    """A request that cannot be answered, with a code for the parent."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class PeerGone(Exception):
    """The other end of the socket is closed."""


class Channel:
    """A stream socket. Threads: any number that send, one that receives."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._socket.setblocking(True)
        self._sending = threading.Lock()

    def send(self, message: Message, bulk: bytes = b"") -> None:
        """Sends a message; PeerGone if the peer has closed its end."""
        record = Outgoing.of(message, bulk=bulk).record()
        try:
            with self._sending:
                self._socket.sendall(record)
        except OSError as error:
            raise PeerGone from error

    def receive(self) -> Incoming:
        """The next message; PeerGone if the peer has closed its end, WireError if it breaks the format."""
        sizes = SIZES.unpack(self._take(SIZES.size))
        if sum(sizes) > _MOST:
            raise WireError("message", "is larger than a message can be")
        return Incoming.of([self._take(size) for size in sizes])

    def _take(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                got = self._socket.recv(min(size - len(data), 1 << 20))
            except OSError as error:
                raise PeerGone from error
            if not got:
                raise PeerGone
            data += got
        return bytes(data)
