"""Parameters and checkpoints in pieces: what a learner serves to samplers and exchanges with the recorder."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import xxhash

from emplace.actor.node import RECORDER, Actor
from emplace.wire.codec import Section
from emplace.wire.frames import Incoming
from emplace.wire.messages import (
    CheckpointDelivered,
    CheckpointRequested,
    CheckpointTaken,
    ParametersDelivered,
    ParametersRequested,
)

PIECE_BYTES = 1 << 20
CHECKPOINT_PIECE_BYTES = 16 << 20
VERSIONS = 16  # Versions whose parameters are kept.


@dataclass(frozen=True)
class _Snapshot:
    parameters: bytes
    sha256: str
    checksum: int


class ParameterServer:
    """Answers samplers. A request for a future version waits for it; one for a version that is gone gets the
    newest.
    """

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._kept: dict[int, _Snapshot] = {}
        self._waiting: dict[int, ParametersRequested] = {}  # The latest request of each sampler.

    def keep(self, version: int, parameters: bytes) -> str:
        """Keeps a version; returns its hash."""
        sha256 = hashlib.sha256(parameters).hexdigest()
        self._kept[version] = _Snapshot(parameters, sha256, xxhash.xxh3_64_intdigest(parameters))
        while len(self._kept) > VERSIONS:
            del self._kept[min(self._kept)]
        return sha256

    def newest(self) -> tuple[str, int]:
        snapshot = self._kept[max(self._kept)]
        return snapshot.sha256, len(snapshot.parameters)

    def on_request(self, request: ParametersRequested, sender: int, ready: bool) -> None:
        if not ready or not self._answer(sender, request):
            self._waiting[sender] = request

    def answer_waiting(self) -> None:
        self._waiting = {
            sender: request for sender, request in self._waiting.items() if not self._answer(sender, request)
        }

    def _answer(self, sender: int, request: ParametersRequested) -> bool:
        newest = max(self._kept)
        wanted = newest if request.version == 0 and not request.exact else request.version
        if wanted > newest:
            return False
        version = wanted if wanted in self._kept else newest
        snapshot = self._kept[version]
        offset = min(request.offset if version == wanted else 0, len(snapshot.parameters))
        piece = snapshot.parameters[offset : offset + PIECE_BYTES]
        self._actor.send(
            sender,
            ParametersDelivered(
                version,
                offset,
                len(snapshot.parameters),
                snapshot.sha256,
                Section(0, len(piece)),
                snapshot.checksum,
            ),
            piece,
        )
        return True


class CheckpointFetch:
    """Fetches the newest checkpoint of the recorder, piece by piece."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._data = bytearray()
        self._of = -1  # The update that the pieces belong to.
        self._asked = 0.0

    def start(self, epoch: int) -> None:
        self._epoch = epoch
        self._ask()

    def _ask(self) -> None:
        self._asked = time.monotonic()
        self._actor.send(RECORDER, CheckpointRequested(0, len(self._data), self._epoch))

    def repeat(self, after: float) -> None:
        if time.monotonic() - self._asked >= after:
            self._ask()

    def take(
        self, incoming: Incoming, whole: Callable[[int, str, bytes, bytes], None], none: Callable[[], None]
    ) -> None:
        delivered = incoming.read(CheckpointDelivered)
        if not delivered.found:
            return none()
        piece = incoming.section(delivered.piece)
        if delivered.update != self._of and delivered.offset == 0:
            self._data.clear()
            self._of = delivered.update
        if delivered.update != self._of or delivered.offset != len(self._data):
            return  # A repeat, or a piece beyond a lost one.
        self._data += piece
        if len(self._data) < delivered.total:
            return self._ask()
        parameters = bytes(self._data[: delivered.parameters])
        whole(delivered.update, delivered.sha256, parameters, bytes(self._data[delivered.parameters :]))


def checkpoint_messages(
    update: int, epoch: int, parameters: bytes, optimizer: bytes
) -> Iterator[tuple[CheckpointTaken, bytes]]:
    """A checkpoint in pieces: the parameters come before the optimizer."""
    data, sha256 = parameters + optimizer, hashlib.sha256(parameters).hexdigest()
    for offset in range(0, max(len(data), 1), CHECKPOINT_PIECE_BYTES):
        piece = data[offset : offset + CHECKPOINT_PIECE_BYTES]
        middle = min(max(len(parameters) - offset, 0), len(piece))
        yield (
            CheckpointTaken(
                update,
                update,
                sha256,
                Section(0, middle),
                Section(middle, len(piece) - middle),
                epoch,
                offset,
                len(data),
            ),
            piece,
        )
