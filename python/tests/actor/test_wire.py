"""Goal: the reader refuses values outside the bounds of the format, the writer values that do not fit their
field.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgpack  # type: ignore[import-untyped,unused-ignore]
import numpy as np
import pytest

import emplace.actor as ea
from emplace.actor.node import actor_id
from emplace.wire.codec import Section, WireError, decode, encode
from emplace.wire.frames import Envelope, Outgoing, messages_of
from emplace.wire.messages import Beat, FileDelivered, Heartbeat, PlacementMeasured


def test_ids_of_actors() -> None:
    assert actor_id("sampler/0") == 0x72BC99C92BA2DD07


def test_unknown_fields_are_skipped_and_missing_ones_have_their_defaults() -> None:
    read = decode(
        Heartbeat, msgpack.packb({"executor": "executor/1", "later": [1, {"a": None}], "busy_s": 3})
    )
    assert (read.executor, read.busy_s, read.seen, len(read.leases)) == ("executor/1", 3.0, 2**64 - 1, 0)


@pytest.mark.parametrize(
    "fields",
    [
        {"executor": 5},
        {"epoch": -1},
        {"epoch": 2**64 - 1, "executor": b"x"},
        {"epoch": 1.5},
        {"epoch": True},
        {"leases": b"1234567"},
        {"leases": [1, 2]},
        {"busy_s": "1"},
    ],
)
def test_fields_of_another_kind_are_refused_by_name(fields: dict[str, object]) -> None:
    with pytest.raises(WireError, match=r"Heartbeat\.\w+: is no "):
        decode(Heartbeat, msgpack.packb(fields))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x81",
        b"\x80\x80",
        b"\x90",
        b"\xdf\xff\xff\xff\xff",
        b"\x81\xa1",
        msgpack.packb({"joined": ["x"] * 65_537}),
        b"\x81\xa1a" + b"\x91" * 60 + b"\x90",
        b"\x81\xa1a" + b"\x91" * 100_000 + b"\x90",
    ],
)
def test_damaged_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(WireError):
        decode(Beat, body)


def test_random_bytes_end_in_a_refusal_or_a_message() -> None:
    random = np.random.default_rng(1)
    whole = encode(PlacementMeasured(host="alpha", executor="executor/0", valid=np.ones(3, np.uint8)))
    for _ in range(3000):
        damaged = bytearray(whole)
        for at in random.integers(0, len(damaged), 3):
            damaged[at] = random.integers(256)
        try:
            decode(PlacementMeasured, bytes(damaged[: random.integers(1, len(damaged) + 1)]))
        except WireError:
            pass


def test_a_number_out_of_range_is_refused_before_it_is_sent() -> None:
    with pytest.raises(ea.EmplaceError, match=r"Heartbeat.epoch: -1 is no u64"):
        encode(Heartbeat(epoch=-1))


def test_whole_numbers_travel_as_integers() -> None:
    values = [0.0, 1.0, -3.0, 0.5, 2.0**63, -(2.0**63), 2.0**64, 1e300, float("inf")]
    for value in values:
        sent = msgpack.unpackb(encode(Heartbeat(busy_s=value)))["busy_s"]
        assert sent == value and isinstance(sent, int) == (
            value.is_integer() and -(2.0**63) <= value < 2.0**64
        )
        assert decode(Heartbeat, encode(Heartbeat(busy_s=value))).busy_s == value


def test_large_messages_travel_as_three_frames_and_small_ones_share_one() -> None:
    large = Outgoing.of(FileDelivered(piece=Section(0, 1 << 20)), bulk=bytes(1 << 20))
    assert [len(part) for part in large.parts()][2] == 1 << 20
    small = Outgoing.of(Heartbeat("executor/0"), 5, 6)
    both = list(messages_of([small.record() + small.record()]))
    assert [one.envelope for one in both] == [Envelope(66, 5, 6)] * 2


def test_a_section_beyond_the_bulk_is_refused() -> None:
    (incoming,) = messages_of(Outgoing.of(FileDelivered(), bulk=b"12345").parts())
    assert bytes(incoming.section(Section(1, 4))) == b"2345"
    for section in (Section(2, 4), Section(6, 0), Section(2**63, 2**63)):
        with pytest.raises(WireError, match="a section of"):
            incoming.section(section)


def test_an_envelope_may_have_grown() -> None:
    assert Envelope.unpack(msgpack.packb([4, 66, 1, 2, 3, 0, 4, "later", [5]])) == Envelope(66, 1, 2, 3, 4, 4)
    for bad in (
        [3, 66, 1, 2, 3, 0],
        [0, 66, 1, 2, 3, 0, 4],
        [3, 66, 1, 2, -1, 0, 4],
        {"a": 1},
        [3, 70000, 1, 2, 3, 0, 4],
    ):
        with pytest.raises(WireError):
            Envelope.unpack(msgpack.packb(bad))


def test_wrong_addresses_and_keys_are_reported_in_one_line(tmp_path: Path) -> None:
    key = tmp_path / "x.key"
    with pytest.raises(ea.EmplaceError, match="cannot be read .*; create one with 'emplace keygen'"):
        ea.access("tcp://127.0.0.1:5555", key)
    key.write_text('public = "x"\n')
    with pytest.raises(ea.EmplaceError, match="can be read by other users; chmod 600"):
        ea.access("tcp://127.0.0.1:5555", key)
    os.chmod(key, 0o600)
    with pytest.raises(ea.EmplaceError, match="has no key pair whose halves match"):
        ea.access("tcp://127.0.0.1:5555", key)
    for address, what in (
        ("tcp://x", "is no endpoint"),
        ("tcp://:1", "is no endpoint"),
        (str(tmp_path), "no head listens"),
        ("tcp://127.0.0.1:5555", "neither key nor insecure"),
    ):
        with pytest.raises(ea.EmplaceError, match=what):
            ea.access(address)
    with pytest.raises(ea.EmplaceError, match="conflicts with key"):
        ea.access("tcp://127.0.0.1:5555", key, insecure=True)
