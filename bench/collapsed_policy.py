#!/usr/bin/env python3
"""Four runs of Placeto that differ in a few keys: one saturates at once, one when its bonus is
gone, one stays uniform, one decides. docs/guide/collapsed-policy.md explains them.

    bench/collapsed_policy.py run          # 800 updates each, some seconds; rows in docs/guide/collapsed-policy.jsonl
    bench/collapsed_policy.py picture      # docs/guide/collapsed-policy.svg; needs matplotlib (Debian: python3-matplotlib)
"""
import math
import os
import sqlite3
import sys
import tempfile

import papers_pictures
from tables import Failed, Rows, exit_status, parser_of, run_program

COMMON = ["run.deterministic=true", 'run.starts=["scratch"]', "policy.method=placeto", "policy.preset=paper",
          "policy.groups=8", "policy.placeto.hidden=8", "policy.linear_over=800", "policy.entropy_over=300"]
RUNS = {
    "saturated": ["policy.entropy=0", "policy.entropy_end=0", "policy.learning_rate=0.003"],
    "bonus that falls from 1": ["policy.entropy=1", "policy.entropy_end=0.0001"],
    "bonus of 0.05": ["policy.entropy=0.05", "policy.entropy_end=0.05"],
    "decided": ["policy.entropy=0.003", "policy.entropy_end=0.0003", "policy.placeto.means=true"],
}
DEVICES = 3  # Of the quickstart's machine.
LAST = 400   # Measurements at the end of a run whose mean shows what its policy draws.


def make_row(program, name):
    """Runs one of RUNS and lists it."""
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "run.toml")
        with open(config, "w") as f:
            f.write('[input]\ngraph = "%s"\ndevices = "%s"\n' % (
                os.path.abspath("tests/fixtures/graphs/cifar10_cnn-bs128.json"),
                os.path.abspath("configs/devices/quickstart.toml")))
        words = ["run", config, "--run-dir", os.path.join(folder, "run"), "--episodes", "3200"]
        for setting in COMMON + RUNS[name]:
            words += ["--set", setting]
        run_program(program, words)
        listed = run_program(program, ["runs", os.path.join(folder, "run")])["runs"][0]
        record = sqlite3.connect(os.path.join(folder, "run", "run.db"))
        last_s, = record.execute("SELECT AVG(step_time_s) FROM (SELECT step_time_s FROM measurements WHERE valid = 1"
                                 " ORDER BY placement_id DESC LIMIT ?)", (LAST,)).fetchone()
        record.close()
    return {"run": name, "settings": RUNS[name], "best_s": listed["graphs"][0]["best_step_time_s"], "last_s": last_s,
            **{key: listed["policies"][0][key] for key in ("updates", "entropy", "saturated", "warning")}}


def draw(rows, path):
    """Entropy by tenths of each run, and where the first gradient of 0 was."""
    pyplot = papers_pictures.plots()
    figure, axes = pyplot.subplots(figsize=(6.4, 3.2))
    for row in rows:
        axes.plot(range(1, 11), row["entropy"], marker="o", markersize=3, label=row["run"])
    axes.axhline(math.log(DEVICES), color="0.5", linestyle=":", linewidth=1)
    axes.annotate("uniform: ln %d" % DEVICES, (10, math.log(DEVICES)), ha="right", va="bottom")
    axes.set(xlabel="Tenth of the updates", ylabel="Entropy per choice [nat]", ylim=(-0.05, 1.3), xticks=range(1, 11))
    axes.legend(loc="center right", bbox_to_anchor=(1, 0.55))
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None, "Creator": None})


def main():
    parser = parser_of(__doc__, out="docs/guide/collapsed-policy.jsonl")
    parser.add_argument("command", choices=["run", "picture"])
    args = parser.parse_args()

    def run():
        rows = Rows(args.out, lambda row: row["run"])
        if args.command == "run":
            for name in RUNS:
                if name not in rows.rows:
                    rows.add(make_row(args.program, name))
                    print("%-24s %s" % (name, " ".join("%.2f" % one for one in rows.rows[name]["entropy"])))
            return 0
        missing = [name for name in RUNS if name not in rows.rows]
        if missing:
            raise Failed("%s lacks %s; make it with: bench/collapsed_policy.py run" % (args.out, ", ".join(missing)))
        draw([rows.rows[name] for name in RUNS], os.path.splitext(args.out)[0] + ".svg")
        return 0
    return exit_status(run)


if __name__ == "__main__":
    sys.exit(main())
