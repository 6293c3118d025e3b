"""The settings and files of a run, fetched from its head (docs/reference/wire_format.md, "Joining").

A file is asked for by its SHA-256 in pieces of 1 MiB, eight at a time. The cache is that of `emplace join`:
files that are there are not fetched again, and an interrupted transfer is resumed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import time
from pathlib import Path

from emplace.actor.access import Access
from emplace.actor.node import LIBRARY, VERSION, Actor, Node, agent_name, random_number
from emplace.errors import EmplaceError
from emplace.wire.frames import Incoming
from emplace.wire.messages import (
    FileDelivered,
    FileFacts,
    FileRequested,
    ManifestDelivered,
    ManifestRequested,
)

CHUNK_BYTES = 1 << 20
_AHEAD = 8  # Pieces in flight.
_RETRY = 2.0  # A request without an answer is repeated [s].
_TIMEOUT = 20.0


def cache_folder() -> Path:
    """The folder that `emplace join` uses. Raises EmplaceError."""
    for variable, below in (("XDG_CACHE_HOME", ""), ("HOME", ".cache")):
        if os.environ.get(variable):
            return Path(os.environ[variable]) / below / "emplace"
    raise EmplaceError("the cache", "neither XDG_CACHE_HOME nor HOME is set", "set one to a writable folder")


class FileStore:
    """Complete files under their hashes; a file that is being fetched ends in `.part`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._part: tuple[Path, int] | None = None

    def path_of(self, file: FileFacts) -> Path:
        return self.folder / file.sha256

    def has(self, file: FileFacts) -> bool:
        path = self.path_of(file)
        if not path.exists():
            return False
        data = path.read_bytes()
        if len(data) == file.bytes and hashlib.sha256(data).hexdigest() == file.sha256:
            return True
        path.unlink()
        return False

    def begin(self, file: FileFacts) -> int:
        """Opens the unfinished file; the bytes that are kept of an earlier transfer."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{file.sha256}.part"
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # Another process fetches it.
            os.close(handle)
            path = self.folder / f"{file.sha256}.part-{os.getpid()}"
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_TRUNC, 0o600)
        if os.fstat(handle).st_size > file.bytes:
            os.ftruncate(handle, 0)
        self._part = path, handle
        return os.fstat(handle).st_size

    def append(self, data: memoryview) -> None:
        assert self._part is not None
        while data:
            data = data[os.write(self._part[1], data) :]

    def finish(self, file: FileFacts) -> bool:
        """Completes the file; False, and it is removed, if its hash is another."""
        assert self._part is not None
        path, handle = self._part
        right = hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256
        path.rename(self.path_of(file)) if right else path.unlink()
        os.close(handle)
        self._part = None
        return right


class Borrower(Actor):
    """Fetches the manifest and the files that are not in the store, then ends its node."""

    def __init__(self, store: FileStore) -> None:
        self.store = store
        self.manifest: ManifestDelivered | None = None
        self.fetched = 0
        self._files: list[FileFacts] = []
        self._have = self._asked = 0
        self._damaged = False

    def on_start(self) -> None:
        self._last_message = self._last = time.monotonic()
        self._request()
        self.after(_RETRY / 4, self._tick)

    def _tick(self) -> None:
        now = time.monotonic()
        if now - self._last_message > _TIMEOUT:
            return self._fail(
                "the head does not deliver its run", f"no answer for {_TIMEOUT:g} s; is it overloaded?"
            )
        if now - self._last >= _RETRY:
            self._asked = self._have
            self._request()
        self.after(_RETRY / 4, self._tick)

    def _fail(self, what: str, cure: str) -> None:
        self.node.fail(EmplaceError(self.node.link.access.endpoint, what, cure))

    def _request(self) -> None:
        """The next request: for the manifest, or for pieces up to the end of the window."""
        self._last = time.monotonic()
        if self.manifest is None:
            self.send(LIBRARY, ManifestRequested(self.node.name, VERSION))
            return
        if not self._files:
            return
        file = self._files[0]
        while self._asked < min(file.bytes, self._have + _AHEAD * CHUNK_BYTES):
            self.send(LIBRARY, FileRequested(file.sha256, self._asked))
            self._asked += CHUNK_BYTES

    def on_message(self, incoming: Incoming) -> None:
        self._last_message = time.monotonic()
        if incoming.number == ManifestDelivered.NUMBER and self.manifest is None:
            manifest = incoming.read(ManifestDelivered)
            if any(not re.fullmatch("[0-9a-f]{64}", file.sha256) for file in manifest.files):
                return self._fail(
                    "its manifest has a file without a hash", "use the same release on both ends"
                )
            self.manifest = manifest
            self._files = list(manifest.files)
            self._next_file()
        elif incoming.number == FileDelivered.NUMBER and self._files:
            self._take(incoming)

    def _next_file(self) -> None:
        while self._files and self.store.has(self._files[0]):
            self._files.pop(0)
        if not self._files:
            return self.node.stop("fetched")
        self._have = self._asked = self.store.begin(self._files[0])
        if self._have < self._files[0].bytes:
            self._request()
        else:
            self._finish()

    def _take(self, incoming: Incoming) -> None:
        delivered, file = incoming.read(FileDelivered), self._files[0]
        if delivered.sha256 != file.sha256:
            return
        if delivered.error:
            return self._fail(f"cannot deliver {file.path}: {delivered.error}", "start the run again")
        piece = incoming.section(delivered.piece)
        if delivered.offset != self._have or not piece or self._have + len(piece) > file.bytes:
            return  # A repeat, or a piece beyond a lost one, which is asked for again.
        self.store.append(piece)
        self._have += len(piece)
        self.fetched += len(piece)
        self._asked = max(self._asked, self._have)
        self._last = time.monotonic()
        self._finish() if self._have == file.bytes else self._request()

    def _finish(self) -> None:
        if self.store.finish(self._files[0]):
            self._damaged = False
        elif self._damaged:
            return self._fail(f"{self._files[0].path} does not have its hash", "start the run again")
        else:
            self._damaged = (
                True  # Bytes kept of an earlier transfer may be damaged: fetch it again from the start.
            )
        self._next_file()


def fetch_manifest(
    access: Access, cache: Path | None = None, patience: float = 10.0
) -> tuple[ManifestDelivered, FileStore]:
    """Fetches under a name of its own, so that a refused request disturbs no node. Raises EmplaceError."""
    store = FileStore((cache or cache_folder()) / "files")
    node = Node(access, f"joining-{random_number()}", patience, patience)
    borrower = Borrower(store)
    node.add(agent_name(node.name), borrower)
    reason = node.run()
    if borrower.manifest is None or reason != "fetched":
        raise EmplaceError(
            access.endpoint, f"ended before the run was fetched ({reason})", "join the next run"
        )
    return borrower.manifest, store
