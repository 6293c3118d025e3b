"""Between nodes. Sessions: the only messages of type 0xFF00 and above."""

from __future__ import annotations

from dataclasses import field

from emplace.actor.wire import U8, U64, Bool, Message, Text, Texts, message


@message(0xFF00)
class Hello(Message):
    """Dialling node -> head: the first message on each connection, repeated every heartbeat until …."""

    node: Text = ""
    epoch: U64 = 0
    plane: U8 = 0
    first_seq: U64 = 1
    actors: Texts = field(default_factory=list)
    wire: U8 = 1
    oldest_wire: U8 = 1


@message(0xFF01)
class Welcome(Message):
    """Head -> dialling node, on the same connection."""

    node: Text = ""
    epoch: U64 = 0
    plane: U8 = 0
    first_seq: U64 = 1
    actors: Texts = field(default_factory=list)


@message(0xFF02)
class Beat(Message):
    """Both ways, every heartbeat, on the control connection."""

    joined: Texts = field(default_factory=list)
    left: Texts = field(default_factory=list)


@message(0xFF03)
class Bye(Message):
    """Both ways: the final message on a connection."""

    reason: Text = ""
    fenced: Bool = False
    final: Bool = False
    over: Bool = False


@message(0xFF04)
class ByeAck(Message):
    """Acknowledges that everything before the Bye has arrived."""

    plane: U8 = 0
