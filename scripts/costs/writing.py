"""Writes fitted.toml: the same tables give the same bytes."""

from collections.abc import Mapping, Sequence

from costs.fit import Table
from costs.grid import Error, Knots

HEAD = """\
# Fitted tables of cost version 2. Written by scripts/fit_costs.py; do not edit. fitted_tables.h and
# kernel_model.h have the form and the formula. Errors are those on rows (a device) or devices (a family) that
# were held out; the values are then fitted to all rows. Derived from measurements of
#   aiconfigurator-core 0.12.0 (PyPI), Copyright (c) 2025-2026 NVIDIA CORPORATION & AFFILIATES, Apache-2.0
#   NeuSight (sitar-lab/NeuSight at 6945927), Copyright (c) 2025 Georgia Institute of
#     Technology and Microsoft Corporation, MIT
#   vTrain (VIA-Research/vTrain), Copyright (c) 2024 VIA Research Group at KAIST, MIT

version = 2
licence = "Apache-2.0 AND MIT"
"""


def number(value: float) -> str:
    """The shortest text of a number, integers without a point."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _errors(error: Error) -> str:
    return f"median = {error.median:.4f}\nmean = {error.mean:.4f}\np90 = {error.p90:.4f}\n"


def knots_text(knots: Knots) -> str:
    """The knots of one kind, one text an axis."""
    lists = ",\n".join('  "' + " ".join(number(mark) for mark in marks) + '"' for marks in knots)
    return f"knots = [\n{lists},\n]\n"


def fitted_text(axes: Mapping[str, Knots], tables: Sequence[Table], rivals: Mapping[str, Error]) -> str:
    """The file, tables by kernel, arithmetic, device. `rivals`: errors of "data_sheet" and "version_1"."""
    parts = [HEAD]
    for name in sorted(rivals):
        parts.append(f"\n[{name}]\n{_errors(rivals[name])}rows = {rivals[name].rows}\n")
    for kernel in sorted(axes):
        parts.append(f'\n[[axes]]\nkernel = "{kernel}"\n{knots_text(axes[kernel])}')
    for table in sorted(tables, key=lambda table: (table.kernel, table.arithmetic, table.of)):
        uneven = f"uneven = {table.uneven:.2f}\n" if table.uneven else ""
        parts.append(
            f'\n[[table]]\nof = "{table.of}"\nkernel = "{table.kernel}"\narithmetic = "{table.arithmetic}"\n'
            f"launch_us = {table.launch_us:.2f}\n{uneven}{_errors(table.error)}rows = {table.error.rows}\n"
            f'source = "{table.source}"\nvalues = "{table.values.hex()}"\n'
        )
    return "".join(parts)
