"""docs/results/costs.md: predictions beside measurements, worst first."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import page_prose as prose
import whole_models
from costs.grid import Error
from fitted import Fitted
from held_kernels import LeftOut
from kernel_rows import KernelRow
from product_examples import Example, Ratio
from tables import markdown
from texts import NONE, judged_table, number, percent, signed, three
from whole_models import Row


@dataclass
class Results:
    """All that the page shows, but for the errors in fitted.toml."""

    models: list[Row] = field(default_factory=list)
    kernels: list[KernelRow] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    #: What the fit judged beside: lists of rows under "peers", "collectives" and "links".
    judged: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


# ---- Whole models ----

GROUPS: Sequence[tuple[str, Callable[[Row], bool]]] = (
    ("NVIDIA", lambda row: not row.amd),
    ("NVIDIA, inference", lambda row: not row.amd and "-inf-" in row.graph),
    ("NVIDIA, training", lambda row: not row.amd and "-train-" in row.graph),
    ("NVIDIA, `*` alone", lambda row: not row.amd and not row.fitted),
    ("NVIDIA, without `!`", lambda row: not row.amd and not row.suspect),
    ("AMD", lambda row: row.amd),
    ("AMD, without `!`", lambda row: row.amd and not row.suspect),
    ("all", lambda row: True),
)


def _group_rows(rows: Sequence[Row]) -> Iterable[list[str]]:
    for name, keep in GROUPS:
        for version in (1, 2):
            found = whole_models.summary(rows, version, keep)
            if found is None:
                continue
            order = whole_models.order(rows, version, keep)
            pairs = order.right + len(order.wrong)
            yield [
                name,
                str(version),
                str(found.rows),
                *map(percent, (found.median, found.mean, found.worst)),
                f"{found.within} of {found.rows}" if version == 2 else NONE,
                f"{order.right} of {pairs} ({percent(order.right / pairs)})" if pairs else NONE,
            ]


def _summary_text(rows: Sequence[Row]) -> str:
    head = [
        "rows",
        "version",
        "count",
        "median",
        "mean",
        "worst",
        "within the stated error",
        "order of devices",
    ]
    nodes = [abs(row.nodes / row.measured - 1) for row in rows]
    nvidia = [miss for row, miss in zip(rows, nodes, strict=True) if not row.amd]
    misses = [percent(statistics.mean(each)) for each in (nodes, nvidia)]
    return (
        markdown(head, list(_group_rows(rows)))
        + "\nThe measured times of the nodes, added up, miss the measured steps by"
        + f" {misses[0]} (mean), those of NVIDIA by {misses[1]}.\n"
    )


def _wrong_text(rows: Sequence[Row], version: int) -> str:
    wrong = whole_models.order(rows, version).wrong
    if not wrong:
        return f"Version {version} puts no pair of devices in the wrong order.\n"
    head = ["model", "faster", "measured", "predicted", "slower", "measured", "predicted"]
    cells = [
        [fast.graph, *(cell for row in (fast, slow) for cell in _times_of(row, version))]
        for fast, slow in wrong
    ]
    return f"Pairs that version {version} puts in the wrong order [ms]:\n\n" + markdown(head, cells)


def _times_of(row: Row, version: int) -> list[str]:
    return [row.device, number(row.measured), number(row.value(version))]


def _sources_text(row: Row) -> str:
    shares = sorted((row.sources or {}).items(), key=lambda item: -item[1])
    return ", ".join(
        name if share >= 0.985 else f"{name} {share:.0%}" for name, share in shares if share >= 0.015
    )


def _model_cells(row: Row) -> list[str]:
    outside = row.predicted is not None and not whole_models.is_within(row)
    return [
        row.device,
        row.graph + ("" if row.fitted else " *") + (" !" if row.suspect else ""),
        number(row.measured),
        signed(row.nodes / row.measured - 1),
        signed(None if row.version_1 is None else row.error(1)),
        number(row.predicted),
        signed(None if row.predicted is None else row.error(2)),
        f"**{percent(row.stated, 0)}**" if outside else percent(row.stated, 0),
        _sources_text(row),
    ]


def models_text(rows: Sequence[Row]) -> str:
    """Summary, pairs in the wrong order, and every row, worst first."""
    version = 2 if any(row.predicted is not None for row in rows) else 1
    worst = sorted(rows, key=lambda row: -abs(row.error(version)) if row.value(version) else 0.0)
    head = [
        "device",
        "model",
        "measured",
        "its nodes",
        "version 1",
        "predicted",
        "error",
        "stated ±",
        "sources",
    ]
    parts = [
        "## Whole models\n" + prose.MODELS,
        _summary_text(rows),
        _wrong_text(rows, version),
        prose.MODEL_ROWS,
        markdown(head, [_model_cells(row) for row in worst], 2),
    ]
    return "\n".join(parts)


def doubts_text(rows: Sequence[Row]) -> str:
    """The labels that contradict something."""
    cells = [
        ["!" if row.suspect else "", row.device, row.graph, why, number(row.measured)]
        for row in sorted(rows, key=lambda row: not row.suspect)
        for why in row.doubts
    ]
    head = ["", "device", "model", "why", "measured [ms]"]
    return "## Labels to distrust\n" + prose.DOUBTS + "\n" + markdown(head, cells, 4)


# ---- Kernels ----


def kernels_text(fitted: Fitted | None, rows: Sequence[KernelRow]) -> str:
    """Errors on held-out shapes by the fit, and the program's own answers for a sample of them."""
    by_key = {(row.device, row.kernel, row.arithmetic): row for row in rows}
    tables = [] if fitted is None else [table for table in fitted.tables if not table.family]
    errors = {table.key: table.error for table in tables}

    def cells(key: tuple[str, str, str]) -> list[str]:
        error, row = errors.get(key), by_key.get(key)
        return [
            *key,
            f"{error.rows:,}" if error else NONE,
            *three(error),
            *three(row.version_1 if row else None)[:2],
            percent(row.agreement if row else None, 2),
        ]

    def worst(key: tuple[str, str, str]) -> float:
        error, row = errors.get(key), by_key.get(key)
        old = row.version_1.median if row and row.version_1 else 0.0
        return -error.median if error else 1 - old

    head = ["device", "kernel", "arithmetic", "rows", "median", "mean", "p90"]
    head += ["version 1: median", "mean", "program and fit"]
    table = markdown(head, [cells(key) for key in sorted({*errors, *by_key}, key=worst)], 3)
    return "## Kernels\n" + prose.KERNELS + "\n" + _means_text(errors) + prose.KERNEL_ROWS + "\n" + table


def _means_text(errors: dict[tuple[str, str, str], Error]) -> str:
    """Means over devices, by kernel and arithmetic."""
    kinds: dict[tuple[str, str], list[Error]] = {}
    for (_, kernel, arithmetic), error in errors.items():
        kinds.setdefault((kernel, arithmetic), []).append(error)
    cells = [
        [*kind, str(len(found)), f"{sum(error.rows for error in found):,}"]
        + [
            percent(statistics.mean(getattr(error, name) for error in found))
            for name in ("median", "mean", "p90")
        ]
        for kind, found in sorted(kinds.items())
    ]
    if not cells:
        return ""
    return markdown(["kernel", "arithmetic", "devices", "rows", "median", "mean", "p90"], cells, 2) + "\n"


def families_text(fitted: Fitted | None, left_out: Sequence[LeftOut]) -> str:
    """Devices that were left out whole."""
    families = [table for table in fitted.tables if table.family] if fitted else []
    cells = [
        [table.of.removeprefix("family:"), table.kernel, table.arithmetic, f"{table.error.rows:,}"]
        + three(table.error)
        for table in sorted(families, key=lambda table: -table.error.median)
    ]
    head = ["family", "kernel", "arithmetic", "rows", "median", "mean", "p90"]
    return (
        "## GPUs left out\n"
        + prose.FAMILIES
        + "\n"
        + judged_table(list(map(asdict, left_out)), ["device", "kernel", "arithmetic"])
        + "\nEach device of a family left out in turn; errors are means over the devices:\n\n"
        + markdown(head, cells, 3)
    )


# ---- Examples, peers, links ----


def examples_text(examples: Sequence[Example], ratios: Sequence[Ratio]) -> str:
    """Numbers by which anyone can check the program."""
    head = ["device", "layers", "measured", "version 1", "version 2", "error of version 2"]
    cells = [
        [row.device, str(row.rows), *map(number, (row.measured, row.version_1, row.version_2))]
        + [signed(row.version_2 / row.measured - 1 if row.version_2 else None)]
        for row in ratios
    ]
    products = [
        [row.device, row.arithmetic, *map(number, (row.measured, row.version_1, row.version_2))]
        for row in examples
    ]
    return (
        "## Unlike GPUs in float32\n"
        + prose.RATIOS
        + "\n"
        + markdown(head, cells)
        + "\nA product of 4096 × 4096 × 4096 [ms]:\n\n"
        + markdown(["device", "arithmetic", "measured", "version 1", "version 2"], products, 2)
    )


def peers_text(rows: Sequence[dict[str, Any]], fitted: Fitted | None) -> str:
    """Another estimator on the same rows, beside ours: the rows where it is better first."""
    tables = {} if fitted is None else {table.key: table.error for table in fitted.tables}
    pairs = [
        (row, tables[key])
        for row in rows
        if (key := (row["device"], row["kernel"], row["arithmetic"])) in tables
    ]
    pairs.sort(key=lambda pair: pair[0]["median"] / pair[1].median)
    cells = [
        [row["device"], row["kernel"], row["arithmetic"], f"{row['rows']:,}"]
        + [cell for name in ("median", "mean", "p90") for cell in _both(row[name], getattr(ours, name))]
        for row, ours in pairs
    ]
    better = {
        name: sum(row[name] < getattr(ours, name) for row, ours in pairs)
        for name in ("median", "mean", "p90")
    }
    head = ["device", "kernel", "arithmetic", "rows"]
    head += [f"{name}: {whose}" for name in ("median", "mean", "p90") for whose in ("its", "ours")]
    return (
        "## The estimator of aiconfigurator on the same rows\n"
        + prose.PEERS
        + f"Of {len(pairs)} tables it has the smaller median error in {better['median']}, the smaller mean in"
        + f" {better['mean']}, the smaller p90 in {better['p90']}.\n\n"
        + markdown(head, cells, 3)
    )


def _both(its: float, ours: float) -> list[str]:
    return [f"**{percent(its)}**" if its < ours else percent(its), percent(ours)]


def links_text(judged: dict[str, list[dict[str, Any]]]) -> str:
    """Collectives by size, and peer copies."""
    links = [
        [row[key] for key in ("link", "what", "measured", "predicted")] for row in judged.get("links", [])
    ]
    text = _collectives_text(judged.get("collectives", []))
    if links:
        text += "\n" + prose.LINKS + "\n" + markdown(["link", "what", "measured", "predicted"], links, 2)
    return "## Collectives and links\n" + prose.COLLECTIVES + "\n" + text


def _by_gpus(rows: Sequence[dict[str, Any]]) -> str:
    """Median errors by number of GPUs; their range if these are many."""
    rows = sorted(rows, key=lambda row: row["gpus"])
    if len(rows) <= 3:
        return ", ".join(f"{row['gpus']}: {percent(row['median'])}" for row in rows)
    medians = [row["median"] for row in rows]
    return f"{rows[0]['gpus']} to {rows[-1]['gpus']}: {percent(min(medians))} to {percent(max(medians))}"


def _collectives_text(rows: Sequence[dict[str, Any]]) -> str:
    """By link and op, worst first."""
    kinds: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        kinds.setdefault((row["device"], row["op"]), []).append(row)
    means = {kind: statistics.mean(row["median"] for row in found) for kind, found in kinds.items()}
    cells = [
        [*kind, _by_gpus(kinds[kind]), f"{sum(row['rows'] for row in kinds[kind]):,}", percent(mean)]
        for kind, mean in sorted(means.items(), key=lambda item: -item[1])
    ]
    return markdown(["link", "op", "median by number of GPUs", "rows", "mean of medians"], cells, 3)


def _ours(rows: Sequence[Row]) -> str:
    lines = []
    for version in (1, 2):
        found = whole_models.summary(rows, version, lambda row: not row.amd)
        if found:
            judged_on = f"{found.rows} whole models on NVIDIA GPUs"
            lines.append(f"| emplace, version {version} | {judged_on} | {percent(found.mean)} mean |\n")
    return "".join(lines)


def page_text(results: Results, fitted: Fitted | None) -> str:
    """The page. Parts without results are left out."""
    rows, judged = results.models, results.judged
    parts = [prose.HEAD, "## Beside others\n" + prose.OTHERS + _ours(rows)]
    if rows:
        parts.append(models_text(rows))
    if fitted or results.kernels:
        parts.append(kernels_text(fitted, results.kernels))
    if fitted or results.left_out:
        parts.append(families_text(fitted, results.left_out))
    if results.ratios or results.examples:
        parts.append(examples_text(results.examples, results.ratios))
    if judged.get("peers"):
        parts.append(peers_text(judged["peers"], fitted))
    if judged.get("collectives") or judged.get("links"):
        parts.append(links_text(judged))
    if rows:
        parts.append(doubts_text(rows))
    return "\n".join([*parts, prose.DATA])
