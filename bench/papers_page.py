"""The page of bench/papers.py: every published number beside ours, from the results alone."""
import math
import pathlib
import statistics
import sys
import textwrap

import papers_pictures

PAPERS = {
    "colocrl-2": "ColocRL 2017, table 2",
    "hierarchical-1": "Hierarchical Planner 2018, table 1",
    "spotlight-1": "Spotlight 2018, table 1 and section 5.4",
    "placeto-1": "Placeto 2019, table 1",
}
SIMPLE = {"single-cpu": "1 CPU", "single-gpu": "1 GPU", "scotch": "Scotch", "mincut": "MinCut", "metis": "Metis",
          "expert": "expert"}
TOWERS = {"towers-sync": "synchronous towers"}
WIDTH = 118  # Letters of a line of the page.
WITHIN = 0.10  # A reduction is met if it is at most this far below the paper's.


class Results:
    """The results that belong to the plan: those of another setup are left out."""

    def __init__(self, plan, rows):
        self.plan, self.rows, self.stale = plan, {}, []
        wanted = {run.key: run for stage in "AB" for run in plan.runs(stage)}
        for key, row in rows.items():
            if key[0].startswith("baselines/"):
                self.rows[key] = row
            elif key in wanted and wanted[key].setup == row["setup"]:
                self.rows[key] = row
            else:
                self.stale.append(key)
        self.wanted = wanted

    def seeds(self, name):
        """The finished results of a run, by seed."""
        return [row for (run, _), row in sorted(self.rows.items()) if run == name and "estimated_core_s" not in row]

    def not_run(self, name):
        """Estimated hours of a run above the limit; None if it was not estimated so."""
        hours = [row["estimated_core_s"] / 3600 for (run, _), row in self.rows.items()
                 if run == name and "estimated_core_s" in row]
        return max(hours, default=None)

    def baselines(self, row):
        place = "baselines/%s/%s" % (self.plan.graph(row), self.plan.devices(row))
        return self.rows.get((place, 1))


def best_simple(baselines, names):
    """Name and step time of the best of the named baselines that fit."""
    known = {name: s for name, s in baselines["methods"].items() if name in names and s}
    name = min(known, key=known.get)
    return name, known[name]


def paper_reduction(paper):
    """The paper's reduction of the step time over its best baseline; None where it has no such number."""
    if "reduction" in paper:
        return paper["reduction"]
    known = [paper[name] for name in SIMPLE if name in paper]
    return 1 - paper["method"] / min(known) if known and "method" in paper else None


def seconds(value):
    return "–" if value is None else "%.3g" % value if value < 100 else "%.0f" % value


def percent(share):
    return "–" if share is None else "%+.0f %%" % (-100 * share) if abs(share) >= 0.005 else "0 %"


def count(number):
    return "–" if number is None else "{:,}".format(number)


def spread(values):
    """Median of values, and their range if there are several; None counts as the worst."""
    if not values:
        return "–"
    ordered = sorted(values, key=lambda value: math.inf if value is None else value)
    middle = ordered[(len(ordered) - 1) // 2] if None in ordered else statistics.median(ordered)
    if len(ordered) == 1:
        return seconds(middle)
    return "%s (%s to %s; %d)" % (seconds(middle), seconds(ordered[0]), seconds(ordered[-1]), len(ordered))


def median(values):
    """The median where None, nothing feasible, counts as the worst; None if that is the median."""
    ordered = sorted(math.inf if value is None else value for value in values)
    value = statistics.median(ordered) if ordered else math.inf
    return None if math.isinf(value) else value


def table(head, rows):
    """A Markdown table; columns after the first are right-aligned."""
    lines = ["| %s |" % " | ".join(head), "|---|" + "--:|" * (len(head) - 1)]
    return "\n".join(lines + ["| %s |" % " | ".join(map(str, row)) for row in rows]) + "\n"


def gpus(row):
    return row["name"].rsplit("/", 1)[1].removesuffix("gpu")


def sign_test(wins, losses):
    """One-sided p of at least `wins` of wins + losses fair coins."""
    total = wins + losses
    return sum(math.comb(total, k) for k in range(wins, total + 1)) / 2 ** total if total else 1.0


class Headline:
    """A row of a main table: the paper's reduction, ours, and why it is missed."""

    def __init__(self, results, row):
        self.row, self.paper = row, row.get("paper", {})
        self.baselines = results.baselines(row)
        self.of = {preset: results.seeds("%s/%s" % (row["name"], preset)) for preset in ("paper", "tuned")}
        self.hours = results.not_run(row["name"] + "/paper")
        self.goal = paper_reduction(self.paper)

    def times(self, preset):
        return [result["best_s"] for result in self.of[preset]]

    def reduction(self, preset):
        """Of the median over the best baseline that the paper has; None without a result."""
        return self.reduction_over(self.best_simple, preset)

    def reduction_over(self, baseline, preset):
        step_time = median(self.times(preset))
        return 1 - step_time / baseline()[1] if step_time and self.baselines else None

    def met(self, preset):
        """None where there is nothing to compare."""
        ours = self.reduction(preset)
        if self.goal is None or not self.of[preset]:
            return None
        return ours is not None and ours >= self.goal - WITHIN

    def best_possible(self):
        """The reduction of a placement at the proven bound."""
        return 1 - self.baselines["bound_s"] / self.best_simple()[1]

    def best_simple(self):
        """Of the baselines that the row names, else of those with a number in the paper's row."""
        return best_simple(self.baselines, self.row.get("against", [name for name in SIMPLE if name in self.paper]))

    def best_of_all(self):
        return best_simple(self.baselines, SIMPLE)

    def reason(self):
        """Why the row misses the paper's reduction, as far as numbers on the page show it."""
        name, best = self.best_simple()
        if self.best_possible() < self.goal - WITHIN:
            return ("no placement can: the bound of %s s is %.0f %% %s our best baseline, %s with %s s"
                    % (seconds(self.baselines["bound_s"]), abs(100 * self.best_possible()),
                       "below" if self.best_possible() > 0 else "above", (SIMPLE | TOWERS)[name], seconds(best)))
        if self.row.get("reason"):
            return self.row["reason"]
        expert = self.baselines["methods"].get("expert")
        step_time = median(self.times("paper"))
        if expert and step_time and 1 - step_time / expert >= self.goal - WITHIN:
            return ("our best baseline is %s with %s s; over the expert's %s s, the paper's best, the row would be met"
                    % (SIMPLE[name], seconds(best), seconds(expert)))
        if step_time is None:
            return "the policy settles on placements that do not fit (%d of %d fitted)" % (
                sum(result["valid"] for result in self.of["paper"]),
                sum(result["placements"] for result in self.of["paper"]))
        return "the policy settles early: " + self.settled()

    def settled(self):
        """Where the runs of the paper's settings found their best, and what they drew in the end."""
        first = self.of["paper"][0]
        last = next((mean for mean in reversed(first["means"]) if mean), None)
        at = first["bests"][-1][0] if first["bests"] else 0
        return "its best came after %s of %s placements (seed %d); the last it drew take %s s on average" % (
            count(at), count(first["placements"]), first["seed"], seconds(last))


def headline_rows(results):
    return [Headline(results, row) for row in results.plan.rows if results.plan.is_headline(row)]


def step_times(results, headlines, name):
    """Two tables of a main table: the paper's step times and ours."""
    mine = [h for h in headlines if h.row["table"] == name]
    columns = [c for c in SIMPLE if any(c in h.paper for h in mine)]
    rival = any("rival" in h.paper for h in mine)
    head = ["model", "GPUs", *(SIMPLE[c] for c in columns), *(["policy gradient" if "spotlight" in name else "RNN"]
                                                              if rival else []), "method"]
    theirs = table(head, [[h.row["model"], gpus(h.row), *(seconds(h.paper.get(c)) for c in columns),
                           *([seconds(h.paper.get("rival"))] if rival else []),
                           seconds(h.paper.get("method")) if "method" in h.paper else h.paper.get("claim", "–")]
                          for h in mine])
    ours = table(["model", "GPUs", "bound", *SIMPLE.values(), "method, paper's settings", "method, tuned"],
                 [[h.row["model"], gpus(h.row), *our_cells(h)] for h in mine])
    return "Paper:\n\n%s\nOurs:\n\n%s" % (theirs, ours)


def our_cells(headline):
    known = headline.baselines
    simple = [seconds(known["methods"].get(c)) if known else "" for c in SIMPLE]
    paper = "not run: %.1f h" % headline.hours if headline.hours and not headline.of["paper"] else spread(
        headline.times("paper"))
    return [seconds(known["bound_s"]) if known else "", *simple, paper, spread(headline.times("tuned"))]


def verdict(met):
    return {None: "", True: "met", False: "**missed**"}[met]


def reductions(headlines):
    """The table of reductions, and the reasons of misses."""
    lines, reasons = [], []
    for h in headlines:
        if h.goal is None or not h.baselines:
            continue
        name = "%s, %s GPUs" % (h.row["model"], gpus(h.row))
        lines.append([PAPERS[h.row["table"]].split(" 20")[0], name, percent(h.goal), percent(h.reduction("paper")),
                      verdict(h.met("paper")), percent(h.reduction("tuned")), verdict(h.met("tuned")),
                      percent(h.best_possible()), percent(h.reduction_over(h.best_of_all, "paper")),
                      percent(h.reduction_over(h.best_of_all, "tuned"))])
        if h.met("paper") is False:
            why = "- %s, %s: %s." % (PAPERS[h.row["table"]].split(" 20")[0], name, h.reason())
            reasons.append(textwrap.fill(why, WIDTH, subsequent_indent="  "))
    text = table(["paper", "row", "paper", "ours, paper's settings", "", "ours, tuned", "", "at the bound",
                  "paper's settings, over all", "tuned, over all"], lines)
    counts = ""
    for preset, words in (("paper", "the paper's settings"), ("tuned", "the tuned preset")):
        judged = [(PAPERS[h.row["table"]].split(" 20")[0], h.met(preset)) for h in headlines if h.met(preset) is not None]
        each = ["%s %d of %d" % (paper, sum(met for of, met in judged if of == paper),
                                 sum(of == paper for of, _ in judged)) for paper in dict.fromkeys(of for of, _ in judged)]
        counts += textwrap.fill("- With %s: %d of %d rows met (%s)." % (
            words, sum(met for _, met in judged), len(judged), ", ".join(each)), WIDTH, subsequent_indent="  ") + "\n"
    why = "\n".join(reasons) or "- None does."
    return "%s\n%s\nWhy rows miss with the paper's settings:\n\n%s\n" % (text, counts, why)


def effort(headlines):
    """Placements and time until the best, the paper's and ours."""
    lines = []
    for h in headlines:
        cells = []
        for preset in ("paper", "tuned"):
            found = [result for result in h.of[preset] if result["bests"]]
            at = [result["bests"][-1][0] for result in found]
            after = [result["bests"][-1][1] for result in found]
            cells += [count(round(statistics.median(at))) if at else "–",
                      "%.0f s" % statistics.median(after) if after else "–"]
        lines.append(["%s, %s GPUs" % (h.row["model"], gpus(h.row)), count(h.paper.get("placements")),
                      h.paper.get("hours", "–") + (" h" if "hours" in h.paper else ""), *cells])
    return table(["row", "paper: placements", "time", "ours, paper's settings: placements", "time",
                  "ours, tuned: placements", "time"], lines)


def rows_of(results, name):
    return [row for row in results.plan.rows if row["table"] == name]


def counterpart(results, row, folder):
    """Results, by seed, of the headline row with the same model and machine in another folder."""
    other = "/".join([folder, *row["name"].split("/")[1:]]) + "/paper"
    return {result["seed"]: result for result in results.seeds(other)}


def plain_table(results, name, label, more=()):
    """Step times of a table's rows, with columns of the paper's words."""
    lines = []
    for row in rows_of(results, name):
        runs = results.seeds(row["name"] + "/paper")
        hours = results.not_run(row["name"] + "/paper")
        cell = spread([r["best_s"] for r in runs]) if runs or not hours else "not run: %.1f h" % hours
        theirs = (row["paper"].get(column) for column in more)
        lines.append([row["model"], gpus(row), *(s if isinstance(s, str) else seconds(s) for s in theirs), cell])
    return table([label, "GPUs", *("paper: " + c for c in more), "ours: median (range; runs)"], lines)


def against(results, name, folder, better):
    """(wins, losses) of the headline folder `folder` over the rows of a table, pairs of the same row and seed; a run
    without a feasible placement loses."""
    wins = losses = 0
    for row in rows_of(results, name):
        others = counterpart(results, row, folder)
        for result in results.seeds(row["name"] + "/paper"):
            mine = others.get(result["seed"])
            if mine is None:
                continue
            order = better(mine, result)
            wins, losses = wins + (order > 0), losses + (order < 0)
    return wins, losses


def faster(mine, other):
    """1 if the first has the lower step time, -1 if the second has, 0 if they are within 0.1 %."""
    a, b = (r["best_s"] or math.inf for r in (mine, other))
    return 0 if a == b or abs(a - b) <= 1e-3 * min(a, b) else 1 if a < b else -1


def sooner(mine, other):
    """1 if the first has reached the second's best with fewer placements."""
    goal, at = other["best_s"] or math.inf, other["bests"][-1][0] if other["bests"] else math.inf
    reached = next((n for n, _, s in mine["bests"] if s <= goal), math.inf)
    return 1 if reached < at else -1 if reached > at else 0


def family_pairs(results, first, second):
    """(wins, losses) over test graphs and seeds of two (run suffix, key) of the families."""
    wins = losses = 0
    for family in results.plan.families:
        ours, theirs = ({r["seed"]: r[key] for r in results.seeds("%s/%s" % (family["name"], method))}
                        for method, key in (first, second))
        for seed in ours.keys() & theirs.keys():
            for a, b in zip(ours[seed], theirs[seed]):
                a, b = a or math.inf, b or math.inf
                wins, losses = wins + (a < b), losses + (a > b)
    return wins, losses


def claims(results):
    """The papers' claims of order, by sign tests."""
    zero = "zero_shot_s"
    beats = lambda folder, table, order=faster: against(results, table, folder, order)
    tests = [
        ("Hierarchical Planner is faster than the Simple Planner", beats("hierarchical-rate", "simple-planner")),
        ("Hierarchical Planner is faster than random grouping", beats("hierarchical-rate", "hierarchical-2")),
        ("Spotlight is faster than REINFORCE with equal groups", beats("spotlight", "spotlight-reinforce")),
        ("Placeto needs fewer placements than the RNN for the RNN's best", beats("placeto", "placeto-rnn", sooner)),
        ("Placeto trained is faster than untrained, zero-shot", family_pairs(results, ("placeto", zero),
                                                                             ("placeto", "untrained_s"))),
        ("Placeto is faster than the RNN, zero-shot", family_pairs(results, ("placeto", zero), ("rnn", zero))),
        ("Placeto is faster than the simple aggregator, zero-shot", family_pairs(
            results, ("placeto", zero), ("placeto-simple-aggregator", zero))),
        ("Placeto is faster than the simple partitioner, zero-shot", family_pairs(
            results, ("placeto", zero), ("placeto-simple-partitioner", zero))),
    ]
    lines = []
    for claim, (wins, losses) in tests:
        p = sign_test(wins, losses)
        holds = wins + losses >= 10 and p < 0.05
        known = "holds" if holds else "too few pairs" if wins + losses < 10 else "**does not hold**"
        lines.append([claim, wins, losses, "%.2g" % p, known])
    return table(["claim", "pairs won", "lost", "p, one-sided", ""], lines)


def family_table(results):
    """Geometric means over a family's test graphs [ms], against the optimised policy."""
    mean = lambda values: None if not values or None in values else \
        1e3 * math.exp(statistics.fmean(math.log(v) for v in values))
    lines = []
    for family in results.plan.families:
        name = family["name"]
        cell = lambda run, key: ", ".join(seconds(mean(r[key])) for r in results.seeds("%s/%s" % (name, run))) or "–"
        lines.append([name.removeprefix("family-"), cell("random", "best_s"), cell("placeto", "untrained_s"),
                      cell("placeto", "zero_shot_s"), cell("placeto-optimised", "best_s"), cell("rnn", "zero_shot_s"),
                      cell("rnn-optimised", "best_s"), cell("placeto-simple-aggregator", "zero_shot_s"),
                      cell("placeto-simple-partitioner", "zero_shot_s")])
    return table(["family", "random", "untrained", "zero-shot", "optimised", "RNN zero-shot", "RNN optimised",
                  "simple aggregator", "simple partitioner"], lines)


def orders_table(results):
    """Mean step time over unseen orders, against the best that training saw."""
    lines = []
    for row in results.plan.orders:
        for found in results.seeds(row["name"]):
            known = sorted(s for s in found["unseen_s"] if s)
            mean = statistics.fmean(known) if known else None
            lines.append([row["model"], found["seed"], row["paper"]["claim"], seconds(found["best_s"]), seconds(mean),
                          percent(1 - mean / found["best_s"]) if mean else "–",
                          percent(1 - known[-1] / known[0]) if known else "–",
                          "%d of %d" % (len(known), len(found["unseen_s"]))])
    return table(["policy", "seed", "paper", "best in training", "mean of unseen orders", "against the best",
                  "slowest against fastest", "fit"], lines)


def end_to_end(results):
    """ColocRL 4.4: the hours of a training run of N steps, ours from step times alone."""
    lines = []
    for name, steps, rival, paper in (("colocrl/nmt-2layer/4gpu", 200_000, "expert", "27.8 %"),
                                      ("colocrl/inception_v3/4gpu", None, "towers-sync", "19.7 %")):
        row = next((row for row in results.plan.rows if row["name"] == name), None)
        known = row and results.baselines(row)
        if not known:
            continue
        best = {preset: median([r["best_s"] for r in results.seeds("%s/%s" % (name, preset))])
                for preset in ("paper", "tuned")}
        base = known["methods"].get(rival)
        hours = lambda s: "–" if s is None else "%.1f h" % (s * steps / 3600) if steps else "%s s" % seconds(s)
        saved = lambda s: "–" if s is None or not base else percent(1 - s / base)
        lines.append([row["model"], "%s steps" % count(steps) if steps else "a step of 32 images", rival, hours(base),
                      hours(best["paper"]), hours(best["tuned"]), paper, saved(best["paper"]), saved(best["tuned"])])
    return table(["model", "length", "against", "its time", "ours, paper's settings", "ours, tuned", "paper: saved",
                  "ours, paper's settings", "ours, tuned"], lines)


def large_models(results):
    return plain_table(results, "colocrl-large", "model, LSTM size, batch", ("method",))


SETUP = pathlib.Path(__file__).with_name("papers_setup.md")


def page(results, pictures):
    """The text of the page; `pictures` maps a picture's name to its title."""
    headlines = headline_rows(results)
    done = sum(1 for key in results.wanted if key in results.rows)
    commits = sorted({row["commit"] for row in results.rows.values()})
    image = lambda name: "![%s](papers/%s.svg)\n" % (pictures[name], name) if name in pictures else ""
    core_hours = sum(row.get("core_s", 0) for row in results.rows.values()) / 3600
    mains = "".join("### %s\n\n%s\n" % (title, step_times(results, headlines, name)) for name, title in PAPERS.items())
    return f"""# The papers' experiments, and ours beside them

`bench/papers.py page` writes this page from `docs/results/papers.jsonl`; do not edit it. `bench/papers.py run`
continues with the runs that are missing: {done} of {len(results.wanted)} are done, in {core_hours:.1f} core-hours.
`configs/papers/experiments.toml` lists every row, `configs/papers/headline.toml` the headline rows.
{textwrap.fill("Commits of the results: %s." % ", ".join(commits), WIDTH)}

- **Paper's settings**: the config in `configs/papers`, for the paper's number of updates or placements. **Tuned**:
  `policy.preset = "tuned"`, 4,000 placements (Placeto 12,288), from scratch. Neither starts at a heuristic.
- Step times [s] are simulated. The graphs have TensorFlow's granularity ([Models](../guide/models.md)), the profiles of
  ColocRL's, the Hierarchical Planner's and Spotlight's machines are calibrated to the papers' step times
  (`docs/reference/machines.md`), and Placeto's GPUs have 8 GB.
- –: nothing fits, or no number. Several seeds: median (range; number of runs).
- A baseline of ours is the best of many variants (`docs/reference/heuristics.md`), so it is stronger than the paper's
  of the same name.

## Reductions of the step time
Change of the step time over the best baseline: the paper's over the best with a number in its row, ours over the same
kinds; a row is met if it is at most 10 points above the paper's. "At the bound" is what no placement can beat. "Over
all" is stricter: over the best of one device, Scotch, MinCut, Metis and expert, whichever of them the paper has. Where
the paper's expert uses one GPU (Inception-V3 and ResNet-152 of the Hierarchical Planner), the placement of our
`expert`, which spreads branches, is not a baseline of the row. Spotlight's reductions on the CIFAR-10 CNN are over one
GPU and over synchronous towers.

{reductions(headlines)}
## Claims of order
Pairs have the same row (or test graph) and seed. A claim holds with p < 0.05 over at least 10 pairs.

{claims(results)}
## Placements and time until the best
The papers' hours are of real measurements, ours of simulated ones (median of the seeds).

{effort(headlines)}
{image("learning")}
## Step times [s]

{mains}{image("spotlight")}
## ColocRL, more
### Larger models (4.3)
The paper's experts' placements do not fit.

{large_models(results)}
### End to end (4.4)
The paper trains to the end; ours are step times times steps.

{end_to_end(results)}
## Hierarchical Planner, more (section 3)
### A rate of 0.001
With the paper's 0.1 every parameter moves by 0.1 at each step of Adam: the policy saturates within ten updates and
learns no more. All other settings are the paper's. The tables that follow have this rate, too.

{plain_table(results, "hierarchical-rate", "model")}
### Random grouping under the learned Placer, ten runs (table 2)

{plain_table(results, "hierarchical-2", "model", ("best", "median", "worst"))}
### Simple Planner
Paper: in words, against the Hierarchical Planner.

{plain_table(results, "simple-planner", "model", ("claim",))}
### Ten orders of the groups
Each seed has an order of its own; these are 5 more seeds of the row above.

{plain_table(results, "hierarchical-order", "model", ("claim",))}
### One worker and four (figure 3), NMT of 4 layers
A placement per update, 4,000 updates.

{plain_table(results, "hierarchical-workers", "workers", ("method", "hours"))}
### Number of groups, NMT of 2 layers
The paper found 256 best of 64 to 1,024 and gives no numbers. 256 is the row with a rate of 0.001 above.

{plain_table(results, "hierarchical-groups", "groups")}
## Spotlight, more
### REINFORCE with the same groups and network

{plain_table(results, "spotlight-reinforce", "model", ("method", "claim"))}
## Placeto, more
### The RNN on Placeto's groups
`configs/papers/placeto/rnn.toml`, as many placements as in the paper.

{plain_table(results, "placeto-rnn", "model", ("method",))}
### Intermediate and final rewards
The paper refers to an appendix that our text of it lacks.


{plain_table(results, "placeto-reward", "reward")}
### Unseen graphs of a family (4.2, figure 5) and ablations (4.3)
Geometric mean of the step times [ms] of the 8 test graphs, one number per training. Zero-shot is the likeliest
placement, measured once. Random is the best of 100 random placements. Optimised is the best of a policy learned on
the test graph itself (Placeto 1,600 episodes, RNN 2,000 placements).

{family_table(results)}
### 64 orders in training, 64 unseen ones (4.3)
Inception-V3 on two GPUs.

{orders_table(results)}
{image("families")}
{SETUP.read_text()}"""


def write(plan, rows, path, draw=True):
    """Writes the page, and its pictures unless not `draw`."""
    results, path = Results(plan, rows), pathlib.Path(path)
    path.write_text(page(results, papers_pictures.titles(results)))
    if draw:
        papers_pictures.write(results, path.with_suffix(""))
    for run, seed in results.stale:
        print("%s/%s: left out, its setup is not today's" % (run, seed), file=sys.stderr)
