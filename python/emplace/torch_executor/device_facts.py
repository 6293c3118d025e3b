"""The devices of a placement, as the parent describes them."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class DeviceFacts:
    """What the parent states about a device."""

    name: str
    kind: str
    memory_bytes: int
