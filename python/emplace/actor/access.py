"""Where the head is and with which keys it is reached (docs/guide/security.md, "Keys in four commands")."""

from __future__ import annotations

import os
import stat
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard

import zmq
from zmq.utils import z85

from emplace.errors import EmplaceError

MAX_IPC_PATH = 107


@dataclass(frozen=True)
class Keys:
    """A key pair of `emplace keygen`, and the public key of the head."""

    public: str
    secret: str = field(repr=False)
    head: str


@dataclass(frozen=True)
class Access:
    """The head's endpoint, and the keys for it; no keys: unencrypted."""

    endpoint: str
    keys: Keys | None = None

    @property
    def encrypted(self) -> bool:
        return self.keys is not None and self.endpoint.startswith("tcp://")


def access(
    address: str | os.PathLike[str], key: str | os.PathLike[str] | None = None, insecure: bool = False
) -> Access:
    """The access that `emplace join ADDRESS --key KEY` would use.

    `address`: tcp://HOST:PORT, ipc://PATH, or the directory of a run on this machine. Raises EmplaceError.
    """
    endpoint = _endpoint(os.fspath(address))
    if key is not None and insecure:
        raise EmplaceError("insecure", "conflicts with key", "remove one of them")
    if key is None:
        if endpoint.startswith("tcp://") and not insecure:
            raise EmplaceError(
                endpoint,
                "neither key nor insecure is given",
                "give your key file (emplace keygen makes one), or insecure=True",
            )
        return Access(endpoint)
    if not zmq.has("curve"):
        raise EmplaceError("keys", "this libzmq has no CURVE", "install one built with libsodium")
    return Access(endpoint, load_keys(Path(key)))


def _endpoint(address: str) -> str:
    if address.startswith("tcp://"):
        host, _, port = address[6:].rpartition(":")
        if host and port.isdigit() and int(port) < 65_536:
            return address
        raise EmplaceError(address, "is no endpoint", "write tcp://HOST:PORT")
    path = Path(address.removeprefix("ipc://"))
    if path.is_dir():
        sockets = [path / "head.ipc", path / "private" / "head.ipc"]
        path = next((socket for socket in sockets if socket.exists()), sockets[0])
    try:
        is_socket = stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        is_socket = False
    if not is_socket:
        raise EmplaceError(
            address, "no head listens there", "give tcp://HOST:PORT, or the directory of a running run"
        )
    if len(str(path)) > MAX_IPC_PATH:
        raise EmplaceError(
            address, f"the socket's path is longer than {MAX_IPC_PATH} characters", "use tcp://HOST:PORT"
        )
    return f"ipc://{path}"


def load_keys(path: Path) -> Keys:
    """Reads a key file. A file without a head's key has the head's own pair, which all nodes share. Raises
    EmplaceError.
    """
    try:
        if path.stat().st_mode & 0o077:
            raise EmplaceError(str(path), "can be read by other users", f"chmod 600 {path}")
        document = tomllib.loads(path.read_text())
    except OSError as error:
        raise EmplaceError(
            str(path), f"cannot be read ({error.strerror})", "create one with 'emplace keygen'"
        ) from None
    except ValueError:
        raise EmplaceError(str(path), "is no key file", "create one with 'emplace keygen'") from None
    public, secret = document.get("public"), document.get("secret")
    if not (_is_key(public) and _is_key(secret)) or zmq.curve_public(secret.encode()).decode() != public:
        raise EmplaceError(
            str(path), "has no key pair whose halves match", "create one with 'emplace keygen'"
        )
    head = document.get("head", "")
    if head and not _is_key(head):
        raise EmplaceError(
            str(path), "head is not a key of 40 characters", "copy it from the head's .pub file"
        )
    return Keys(public, secret, head or public)


def _is_key(text: object) -> TypeGuard[str]:
    try:
        return isinstance(text, str) and len(z85.decode(text.encode())) == 32
    except (ValueError, KeyError):
        return False
