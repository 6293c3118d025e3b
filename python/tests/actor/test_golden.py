"""Goal: what this client writes and reads is the wire format. Method: the stored frames of the repository,
which every release keeps, are decoded and written again byte for byte, except for fields that a message
gained since; the tables of the document are compared with the classes.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped,unused-ignore]
import pytest

from emplace.wire import executor_messages, messages
from emplace.wire.codec import REGISTER, Message, Section, decode, encode, unpack
from emplace.wire.frames import Envelope, Incoming, Outgoing, messages_of

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "wire" / "golden"
DOCUMENT = ROOT / "docs" / "reference" / "wire_messages.md"


def stored(path: Path) -> list[bytes]:
    """Frames, each led by its length."""
    data, frames = path.read_bytes(), []
    while data:
        (size,) = struct.unpack_from("<I", data)
        frames.append(data[4 : 4 + size])
        data = data[4 + size :]
    return frames


def without_new(now: Any, then: Any) -> Any:
    """What is written now, without the fields that a stored frame lacks, in every struct of it."""
    if isinstance(now, dict) and isinstance(then, dict):
        return {name: without_new(value, then[name]) for name, value in now.items() if name in then}
    if isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        return [without_new(*pair) for pair in zip(now, then, strict=True)]
    return now


def assert_same(cls: type[Message], now: bytes, then: bytes) -> None:
    """Byte for byte, except for fields that the message gained, which have their defaults."""
    values, stored_values = unpack(now, cls.__name__), unpack(then, cls.__name__)
    written = without_new(values, stored_values)
    assert msgpack.packb(written, use_bin_type=True, unicode_errors="surrogateescape") == then
    default = unpack(encode(cls()), cls.__name__)
    for name in values.keys() - stored_values.keys():
        assert values[name] == default[name], f"{cls.__name__}.{name}"


def newest() -> list[Path]:
    """The frames of messages that this client knows."""
    known = {cls.__name__ for cls in REGISTER.values()}
    return sorted(path for path in (GOLDEN / "v3").glob("*.bin") if path.stem in known)


@pytest.mark.parametrize("path", newest(), ids=lambda path: path.stem)
def test_stored_frames_are_written_again_byte_for_byte(path: Path) -> None:
    head, body, bulk = stored(path)
    envelope = Envelope.unpack(head)
    cls = REGISTER[envelope.type]
    assert cls.__name__ == path.stem
    read = decode(cls, body)
    assert_same(cls, encode(read), body)
    assert envelope.pack() == head
    for name, kind, _ in cls.FIELDS:
        if kind == "section":
            section = getattr(read, name)
            assert len(Incoming.of([head, body, bulk]).section(section)) == section.size
    (again,) = messages_of(Outgoing(envelope, body, bulk).parts())
    assert (again.envelope, bytes(again.body), bytes(again.bulk)) == (envelope, body, bulk)


def test_every_message_has_a_stored_frame() -> None:
    assert {path.stem for path in newest()} == {cls.__name__ for cls in REGISTER.values()}


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_frames_of_older_versions_are_read_or_their_numbers_are_retired(version: str) -> None:
    retired = {"BestFound", "ActorFailed", "HistoryRequested"}
    for path in sorted((GOLDEN / version).glob("*.bin")):
        head, body, _ = stored(path)
        number = Envelope.unpack(head).type
        if number in REGISTER:
            assert path.stem not in retired
            decode(REGISTER[number], body)


def test_a_stored_session_is_read_message_by_message() -> None:
    data, seen = (GOLDEN / "sessions" / "v3.bin").read_bytes(), []
    while data:
        (size,) = struct.unpack_from("<I", data, 1)
        for incoming in messages_of([data[5 : 5 + size]]):
            cls = REGISTER[incoming.number]
            assert_same(cls, encode(incoming.read(cls)), bytes(incoming.body))
            seen.append(cls.__name__)
        data = data[5 + size :]
    assert seen == [
        "Hello",
        "Hello",
        "ExecutorJoined",
        "CreditGranted",
        "Heartbeat",
        "Beat",
        "PlacementMeasured",
        "ExecutorLeft",
        "Bye",
        "Bye",
    ]


def documented() -> dict[str, tuple[int, list[tuple[str, str, str]]]]:
    """Number and own fields (name, kind, default) of every message in the document."""
    found: dict[str, tuple[int, list[tuple[str, str, str]]]] = {}
    for line in DOCUMENT.read_text().splitlines():
        head = re.match(r"### (\w+)(?: \((0x[0-9A-F]+|\d+)\))?$", line)
        row = re.match(r"\| `(\w+)` \| ([\w\[\]]+) \| ?(.*?) ?\| .*\|$", line)
        if head:
            current = found[head[1]] = (int(head[2], 0) if head[2] else -1, [])
        elif row:
            current[1].append((row[1], row[2], row[3]))
    return found


def test_the_document_lists_the_fields_of_the_classes() -> None:
    found = documented()
    classes: dict[str, type[Message]] = {
        name: value
        for name, value in (vars(messages) | vars(executor_messages)).items()
        if isinstance(value, type) and issubclass(value, Message) and value is not Message
    }
    assert classes.keys() <= found.keys()
    for name, cls in classes.items():
        number, fields = found[name]
        inherited = sum(
            len(base.FIELDS) for base in cls.__bases__ if issubclass(base, Message) and base is not Message
        )
        assert cls.NUMBER == number, name
        assert [(field, kind) for field, kind, _ in cls.FIELDS[inherited:]] == [f[:2] for f in fields], name
        for field, kind, default in fields:
            value = getattr(cls(), field)
            text = {"2^64 − 1": 2**64 - 1, "true": True}.get(default, default)
            if default:
                assert value == (float(text) if kind == "f64" else int(text)), f"{name}.{field}"
            else:
                empty = (
                    len(value) == 0
                    if kind.endswith("]")
                    else value in (0, "", Section()) or value == type(value)()
                )
                assert empty, f"{name}.{field}"
