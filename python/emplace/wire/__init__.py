"""The wire format of emplace (docs/reference/wire_format.md): a codec, frames, and the messages."""

from emplace.errors import need

need("the wire format", msgpack="msgpack")
