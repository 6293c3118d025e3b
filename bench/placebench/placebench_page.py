"""The page of placebench: how far methods are above the best known values, from tasks, references and results alone."""
import collections
import math
import statistics
import textwrap

from tables import markdown as table
from tables import mean

WORST = 10.0  # A ratio counts at most this, and a failure counts this.
WIDTH = 118  # Letters of a line of the page.


def budget_of(method):
    """The budget in a method's name; None for a heuristic."""
    _, at, budget = method.partition("@")
    return float(budget[:-1]) if at else None


class Results:
    """The results that are about today's tasks, by task and method."""

    def __init__(self, tasks, references, rows):
        self.tasks, self.references = tasks, references
        self.of, self.other, latest = {}, 0, {}
        for row in rows:
            known = references.get(row["task"])
            if known and known["setup"] == row["setup"]:
                latest[row["task"], row["method"], row["seed"]] = row
            else:
                self.other += 1
        for (task, method, _), row in latest.items():
            self.of.setdefault((task, method), []).append(row)
        self.rows = list(latest.values())
        done = {task for task, _ in self.of}
        self.numbers = {task.name: "T%d" % number for number, task in enumerate(tasks, 1)}
        self.run = [task for task in tasks if task.name in done]
        self.groups = list(dict.fromkeys(task.group for task in self.run))
        self.methods = sorted({method for _, method in self.of}, key=lambda m: (self.score(m) or math.inf, m))

    def left_out(self):
        if self.other:
            yield "%d results left out: no best known value for their task as it was" % self.other

    def ratio(self, row):
        """Value over the best known one; None for a failure."""
        return None if "failed" in row else row["value_s"] / self.references[row["task"]]["value_s"]

    def score(self, method, group=None):
        """Geometric mean over the tasks of a group, each task the mean of its seeds; None if a task is missing."""
        tasks = [task.name for task in self.run if group in (None, task.group)]
        if not tasks or any((task, method) not in self.of for task in tasks):
            return None
        return mean([mean([min(self.ratio(row) or WORST, WORST) for row in self.of[task, method]]) for task in tasks])

    def all_of(self, method):
        return [row for (_, name), rows in self.of.items() if name == method for row in rows]


def ratio_text(value):
    return "–" if value is None else "%.3f" % value if value < 9.995 else "%.1f" % value


def times_of(rows):
    """Median and longest wall time."""
    known = [row["wall_s"] for row in rows if "wall_s" in row]
    return ["%.2f" % statistics.median(known), "%.2f" % max(known)] if known else ["–", "–"]


def late(rows):
    """The number of results that took over a tenth and a second more than their budget."""
    return sum(1 for row in rows if budget_of(row["method"]) and row.get("wall_s", 0) > 1.1 * budget_of(row["method"]) + 1)


def means(results):
    lines = [[method, *(ratio_text(results.score(method, group)) for group in [None, *results.groups])]
             for method in results.methods]
    return table(["method", "all", *results.groups], lines)


def costs(results):
    """Failures and times of every method."""
    lines = []
    for method in results.methods:
        rows = results.all_of(method)
        failed = sum(1 for row in rows if "failed" in row)
        lines.append([method, len(rows), failed, late(rows), *times_of(rows), share_text(rows)])
    return table(["method", "results", "failed", "late", "time [s]", "longest [s]", "cores"], lines)


def time_of(value_s):
    return "%.4g ms" % (value_s * 1e3) if value_s < 1 else "%.4g s" % value_s if value_s < 1e4 else "%.0f s" % value_s


def share_text(rows):
    """Median share of its cores that a method used; None for methods that take no second."""
    shares = [row["core_s"] / row["wall_s"] / row["threads"] for row in rows if row.get("wall_s", 0) > 0.9]
    return "%.0f %%" % (100 * statistics.median(shares)) if shares else "–"


def task_table(results):
    lines = []
    for task in results.tasks:
        known = results.references.get(task.name)
        cells = ["–"] * 6 if not known else [
            known["ops"], known["devices"], time_of(known["bound_s"]), time_of(known["value_s"]),
            "%+.1f %%" % (100 * (known["value_s"] / known["bound_s"] - 1)), known["by"]]
        lines.append([results.numbers[task.name], task.name, *cells])
    return table(["", "task", "ops", "devices", "bound", "best known", "above", "found by"], lines)


def group_table(results, group):
    """Ratios of every method on the tasks of a group: the median of the seeds."""
    chosen, lines = [task for task in results.run if task.group == group], []
    for method in results.methods:
        cells = []
        for task in chosen:
            rows = results.of.get((task.name, method), [])
            ratios = sorted(results.ratio(row) or math.inf for row in rows)
            middle = ratios[(len(ratios) - 1) // 2] if ratios else None
            cells.append("failed" if middle == math.inf else ratio_text(middle))
        lines.append([method, *cells])
    return table([group, *(results.numbers[task.name] for task in chosen)], lines)


def failure_table(results):
    reasons = collections.Counter()
    for row in results.rows:
        if "failed" in row:
            reasons[row["method"], row["failed"].partition(":")[0].partition(",")[0]] += 1
    lines = [[method, reason, count] for (method, reason), count in sorted(reasons.items())]
    return table(["method", "reason", "results"], lines) if lines else "None.\n"


def doppler_section(results):
    """Values by DOPPLER's own cost code, over the best of the table by that code."""
    rows = [row for row in results.rows if "doppler_s" in row]
    if not rows:
        return ""
    tasks = [task for task in results.run if any(row["task"] == task.name for row in rows)]
    best = {task.name: min(row["doppler_s"] for row in rows if row["task"] == task.name) for task in tasks}
    lines = []
    for method in results.methods:
        cells = []
        for task in tasks:
            mine = [row["doppler_s"] for row in results.of.get((task.name, method), []) if "doppler_s" in row]
            cells.append(ratio_text(statistics.median(mine) / best[task.name]) if mine else "–")
        lines.append([method, *cells])
    lines.append(["best of the table [s]", *("%.2f" % best[task.name] for task in tasks)])
    gaps = sorted(abs(row["value_s"] / row["doppler_s"] - 1) for row in rows)
    text = ("The same placements, judged by the simulator that DOPPLER publishes. Ratios are to the best of this table. Our "
            "referee's values differ from it by a median of %.2f %%, at most %.1f %%: both run ready ops in the order in "
            "which they became ready, but ops that become ready at the same moment in an order of their own." % (
                100 * statistics.median(gaps), 100 * gaps[-1]))
    return "\n## DOPPLER's graphs by DOPPLER's cost code\n%s\n\n%s" % (
        textwrap.fill(text, WIDTH), table(["method", *(results.numbers[task.name] for task in tasks)], lines))


def published_section(results):
    """How far the referee's values are from those of dnn-partitioning's evaluators."""
    gaps = [abs(row["value_s"] / row["published_s"] - 1) for row in results.rows if "published_s" in row]
    if not gaps:
        return ""
    text = ("%d placements of this page were judged by the evaluators that dnn-partitioning publishes, too. The largest "
            "difference is %.1g %%: they print three decimals, or six digits." % (len(gaps), 100 * max(gaps)))
    return "\n## dnn-partitioning's workloads by its own evaluators\n%s\n" % textwrap.fill(text, WIDTH)


def setting(results):
    """What the results have in common, and how much of its core a method got."""
    programs = sorted({row["program"].partition(",")[0] for row in results.rows})
    threads = sorted({row["threads"] for row in results.rows})
    seeds = sorted({row["seed"] for row in results.rows})
    shares = [row["core_s"] / row["wall_s"] / row["threads"] for row in results.rows
              if budget_of(row["method"]) and row.get("wall_s", 0) > 0.9]
    minutes = sum(row.get("core_s", 0) for row in results.rows) / 60
    notes = sorted({row["note"] for row in results.rows if "note" in row})
    lines = ["%d results, %.0f core-minutes. Program: %s. Cores of each method: %s. Seeds: %s." % (
        len(results.rows), minutes, ", ".join(programs), ", ".join(map(str, threads)), ", ".join(map(str, seeds)))]
    if shares:
        lines.append("Methods with a budget had a median of %.0f %% of their cores (lowest tenth: %.0f %%)." % (
            100 * statistics.median(shares), 100 * sorted(shares)[len(shares) // 10]))
    return textwrap.fill(" ".join(lines + notes), WIDTH)


def page(results):
    groups = "\n".join(group_table(results, group) for group in results.groups)
    return f"""# placebench

`bench/placebench/placebench.py page` writes this page from `docs/results/placebench.jsonl`; do not edit it.
`docs/guide/placebench.md` explains the tasks, the referee, the rules, and how to add a placer.

{setting(results)}

- **Ratio**: the referee's value of a placement over the best known one. 1 is as good as the best known, below 1 better.
- **Means** are geometric, over the tasks of a group; a task is the mean of its seeds. A ratio counts at most {WORST:.0f}, and
  a failure (no placement, or one that does not fit) counts {WORST:.0f}. –: not run on all tasks.
- **NAME@5s** had a budget of 5 s of wall time, its start included, and the cores named above; other methods take the
  time that they take.
- The papers' methods (`colocrl`, `hierarchical`, `spotlight`, `placeto`) learn each task from random parameters within
  the budget. Their authors trained for hours: this measures what they give in seconds, not what they can reach
  (`docs/results/papers.md`).
- Best known values come from this project's own searches, here and with 20 s, unless "found by" names another source.
  A placer that finds a lower one has a ratio below 1, and `placebench.py judge --by` keeps its placement.
- Costs are of version 1 for all machines (`--cost-version 1`), because the best known values are.

## Means

{means(results)}
## Failures and time
time: median wall time. cores: median share of its cores that a method got and used, where it ran for a second. late:
results that took over a tenth and a second more than the budget.

{costs(results)}
## Tasks
The bound is proven (`docs/proofs/bounds.md`); above: the best known value over it.

{task_table(results)}
## Ratios

{groups}{published_section(results)}{doppler_section(results)}
## Reasons of failures

{failure_table(results)}"""
