"""Tables of families: what stands for a device without measurements."""

from collections.abc import Iterator, Sequence

from costs.fit import Table, family_table
from costs.grid import Knots
from costs.rows import Rows

LARGE_CACHE = ("l40s", "rtxpro6000")  # The measured devices that are made like desktop cards.
INTEL = ("arc_pro_b60",)


def nvidia_families(rows: Sequence[Rows], knots: Knots) -> Iterator[Table]:
    """The tables of NVIDIA's servers, all measured devices with equal weight, and of its desktop cards.

    For desktop cards the devices that are made like them have half of the weight. None if fewer than two were
    measured.
    """
    members = [one for one in rows if one.device not in INTEL]
    if len(members) < 2:
        return
    yield family_table("nvidia-server", members, knots)
    others = len(members) - len(LARGE_CACHE)
    weights = {one.device: 1.0 if one.device in LARGE_CACHE else len(LARGE_CACHE) / others for one in members}
    yield family_table("nvidia-desktop", members, knots, weights=weights)
