#!/usr/bin/env python3
"""Writes the page about the CUDA executor's runs on a GPU from the files of scripts/gpu.sh, every number from them.

    usage: scripts/gpu_page.py gpu-1.tar.gz [gpu-2.tar.gz gpu-3.tar.gz] -o docs/results/gpu.md

Output of a rehearsal (EMPLACE_GPU_REHEARSE) has no numbers of a GPU: it is refused with exit status 2, unless --rehearsal
is given, and then the page states it first.
"""

import argparse
import json
import sys
import tarfile


def read(paths):
    """{check: [objects]} over all files, the summaries, and the text about the machine."""
    checks, summary, machine = {}, [], ""
    for path in paths:
        with tarfile.open(path) as tar:
            for member in tar.getmembers():
                name = member.name.rsplit("/", 1)[-1]
                if not member.isfile():
                    continue
                text = tar.extractfile(member).read().decode("utf-8", "replace")
                if name == "machine.txt":
                    machine = machine or text
                elif name.endswith(".jsonl"):
                    rows = []
                    for line in text.splitlines():
                        try:
                            rows.append(json.loads(line))
                        except json.JSONDecodeError:
                            pass  # A check that was ended in the middle of a line.
                    if name == "summary.jsonl":
                        summary += rows
                    else:
                        checks[name[: -len(".jsonl")]] = [row for row in rows if isinstance(row, dict)]
    return checks, summary, machine


def ms(seconds):
    return f"{seconds * 1e3:.2f}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows] + [""]


def correlation(value):
    """None: all placements took the same time, so that they have no order."""
    return "none" if value is None else f"{value:.3f}"


def page(checks, summary, machine, rehearsal):
    lines = ["# The CUDA executor on a GPU", ""]
    if rehearsal:
        lines += ["**Rehearsal.** Nothing was computed; no number below is of a GPU.", ""]
    lines += ["Written by `scripts/gpu_page.py` from the output of `scripts/gpu.sh --run 1`, `2` and `3`.", ""]
    lines += ["```", *[line for line in machine.splitlines() if line.strip()], "```", ""]
    lines += ["## Checks", ""]
    lines += table(["check", "outcome", "time"], [[f"`{one['check']}`", one["outcome"], f"{one['seconds']} s"] for one in summary])
    failed = [(name, row) for name, rows in checks.items() for row in rows if "expected" in row and not row.get("ok")]
    if failed:
        lines += ["### Not as expected", ""]
        lines += table(["check", "case", "expected", "found"],
                       [[f"`{name}`", row.get("case", ""), row["expected"], row.get("found", "")] for name, row in failed])
    steps = [row for row in checks.get("step_times", []) if "step_s" in row]
    if steps:
        torch = {row["network"]: row["step_s"] for row in checks.get("pytorch", []) if "network" in row}
        lines += ["## Steps on one device", ""]
        lines += table(["network", "step [ms]", "enqueuing [ms]", "busy [ms]", "PyTorch [ms]"],
                       [[row["case"], ms(row["step_s"]), ms(row["enqueue_s"]), ms(sum(row["busy_s"])),
                         ms(torch[row["case"]]) if row["case"] in torch else ""] for row in steps])
    launches = [row for row in checks.get("dispatch_overhead", []) if "us_per_op" in row]
    if launches:
        lines += ["## Host time of a task", ""]
        lines += table(["chain", "[us] per op"], [[row["case"], f"{row['us_per_op']:.2f}"] for row in launches])
    shared = [row for row in checks.get("shared_gpu", []) if "found" in row]
    if shared:
        lines += ["## Two parts of one GPU", ""]
        lines += table(["what", "expected", "found"], [[row["case"], row["expected"], f"{row['found']:.4g}"] for row in shared])
    agreements = [row for row in checks.get("placements", []) if "spearman" in row]
    if agreements:
        lines += ["## Measured and simulated placements", ""]
        lines += table(["network", "placements", "error (MAPE)", "Spearman", "Kendall", "top five shared"],
                       [[row["case"], row["count"], f"{row['mape']:.1%}", correlation(row["spearman"]), correlation(row["kendall"]),
                         row["top5_overlap"]] for row in agreements])
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--rehearsal", action="store_true")
    options = parser.parse_args()
    checks, summary, machine = read(options.files)
    if not summary:
        print(f"error: {options.files[0]}: has no results of scripts/gpu.sh", file=sys.stderr)
        return 2
    rehearsal = "rehearsal: 1" in machine
    if rehearsal and not options.rehearsal:
        print(f"error: {options.files[0]}: is a rehearsal's output and has no numbers of a GPU; use --rehearsal to see its page",
              file=sys.stderr)
        return 2
    with open(options.output, "w", encoding="utf-8") as out:
        out.write(page(checks, summary, machine, rehearsal))
    return 0


if __name__ == "__main__":
    sys.exit(main())
