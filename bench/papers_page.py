"""The page of bench/papers.py: every published number beside ours, from the results alone."""
import itertools
import math
import pathlib
import statistics
import sys
import textwrap

import papers_pictures
from papers_claims import Claim, Pairs, claims_table
from papers_families import gain_table, policy_table, zero_shot_claims
from tables import markdown as table

PAPERS = {
    "colocrl-2": "ColocRL 2017, table 2",
    "hierarchical-1": "Hierarchical Planner 2018, table 1",
    "spotlight-1": "Spotlight 2018, table 1 and section 5.4",
    "placeto-1": "Placeto 2019, table 1",
}
SIMPLE = {"single-cpu": "1 CPU", "single-gpu": "1 GPU", "scotch": "Scotch", "mincut": "MinCut", "metis": "Metis",
          "expert": "expert"}
TOWERS = {"towers-sync": "synchronous towers"}
#: How a row is run: its words in the tables' heads.
PRESETS = {"paper": "paper's settings", "stable": "departures for stability", "tuned": "tuned"}
WIDTH = 118  # Letters of a line of the page.
WITHIN = 0.10  # A reduction is met if it is at most this far below the paper's.
TWO_THIRDS = 2 / 3 - 1e-9


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


def gpus(row):
    return row["name"].rsplit("/", 1)[1].removesuffix("gpu")


class Headline:
    """A row of a main table: the paper's reduction, ours, and why it is missed."""

    def __init__(self, results, row):
        self.row, self.paper = row, row.get("paper", {})
        self.baselines = results.baselines(row)
        self.of = {preset: results.seeds("%s/%s" % (row["name"], preset)) for preset in PRESETS}
        self.goal = paper_reduction(self.paper)

    def times(self, preset):
        return [result["best_s"] for result in self.of[preset]]

    def reduction(self, preset):
        """The reduction of the median over the best baseline that the paper has; None without a result."""
        return self.reduction_over(self.best_simple, preset)

    def reduction_over(self, baseline, preset):
        step_time = median(self.times(preset))
        return 1 - step_time / baseline()[1] if step_time and self.baselines else None

    def papers(self):
        """The preset that stands for the paper's settings: with the departures for stability where it was run so."""
        return "stable" if self.of["stable"] else "paper"

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
        """The best of the baselines that the row names, else of those with a number in the paper's row."""
        return best_simple(self.baselines, self.row.get("against", [name for name in SIMPLE if name in self.paper]))

    def best_of_all(self):
        return best_simple(self.baselines, SIMPLE)

    def papers_best_kind(self):
        """The baseline, by our name, that is fastest in the paper's row."""
        return min((name for name in SIMPLE if name in self.paper), key=lambda name: self.paper[name], default=None)

    def reason(self, preset):
        """Why the row misses the paper's reduction with a preset, as far as the results show it."""
        name, best = self.best_simple()
        if self.best_possible() < self.goal - WITHIN:
            bound = self.baselines["bound_s"]
            why = "no placement can: the bound of %s s is %.0f %% %s our best baseline, %s with %s s" % (
                seconds(bound), abs(100 * self.best_possible()), "below" if self.best_possible() > 0 else "above",
                (SIMPLE | TOWERS)[name], seconds(best))
            step_time = median(self.times(preset))
            is_near = step_time and step_time < (1 + WITHIN) * best
            return why if is_near else "%s; besides, %s" % (why, self.endings(preset))
        kind, step_time = self.papers_best_kind(), median(self.times(preset))
        other = self.baselines["methods"].get(kind)
        if other and kind != name and step_time and 1 - step_time / other >= self.goal - WITHIN:
            return ("our best baseline is %s with %s s; over %s (%s s), the paper's best, the row would be met"
                    % (SIMPLE[name], seconds(best), SIMPLE[kind], seconds(other)))
        return self.endings(preset)

    def endings(self, preset):
        """What all runs of a preset drew in the end, and how many of their placements fitted."""
        kinds, times = {}, []
        for result in self.of[preset]:
            last = result["means"][-1] if result["means"] else None
            alone = next((SIMPLE[name] for name in ("single-cpu", "single-gpu")
                          if last and self.baselines["methods"].get(name)
                          and abs(last / self.baselines["methods"][name] - 1) < 0.005), None)
            kind = "placements that do not fit" if last is None else "%s for all ops" % alone if alone else "others"
            kinds[kind] = kinds.get(kind, 0) + 1
            times += [last] if kind == "others" else []
        if times:
            kinds["placements of %s s on average" % low_to_high(times, seconds)] = kinds.pop("others")
        (first, number), *more = kinds.items()
        of = len(self.of[preset])
        text = "the run ends with " + first if of == 1 else "%d of %d seeds end with %s" % (number, of, first)
        text += "".join(", %d with %s" % (number, kind) for kind, number in more)
        fitted = [result["valid"] for result in self.of[preset]]
        drawn = max(result["placements"] for result in self.of[preset])
        return text + ("; %s of %s placements fitted" % (low_to_high(fitted, count), count(drawn))
                       if min(fitted) < 0.9 * drawn else "")


def low_to_high(values, text):
    """"LOW to HIGH", or one value if their texts are equal."""
    low, high = text(min(values)), text(max(values))
    return low if low == high else "%s to %s" % (low, high)


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
    ours = table(["model", "GPUs", "bound", *SIMPLE.values(), *("method, " + words for words in PRESETS.values())],
                 [[h.row["model"], gpus(h.row), *our_cells(results, h)] for h in mine])
    return "Paper:\n\n%s\nOurs:\n\n%s" % (theirs, ours)


def our_cells(results, headline):
    known, name = headline.baselines, headline.row["name"]
    simple = [seconds(known["methods"].get(c)) if known else "" for c in SIMPLE]
    return [seconds(known["bound_s"]) if known else "", *simple,
            *(cell_of(results, "%s/%s" % (name, preset)) for preset in PRESETS)]


def verdict(met):
    return {None: "", True: "met", False: "**missed**"}[met]


def reductions(headlines):
    """The table of reductions, and the reasons of misses."""
    lines, reasons = [], []
    for h in headlines:
        if h.goal is None or not h.baselines:
            continue
        cells = ((with_seeds(percent(h.reduction(preset)), h.of[preset]), verdict(h.met(preset))) for preset in PRESETS)
        lines.append([paper_of(h), named(h.row), percent(h.goal), *itertools.chain(*cells),
                      percent(h.best_possible()), percent(h.reduction_over(h.best_of_all, h.papers())),
                      percent(h.reduction_over(h.best_of_all, "tuned"))])
        whys = [(words, h.reason(preset)) for preset, words in PRESETS.items() if h.met(preset) is False]
        if h.row.get("reason"):
            whys.insert(0, ("not comparable", h.row["reason"]))
        if whys:
            why = "- %s, %s. %s." % (paper_of(h), named(h.row), ". ".join("%s: %s" % (words.capitalize(), each)
                                                                         for words, each in whys))
            reasons.append(textwrap.fill(why, WIDTH, subsequent_indent="  "))
    text = table(["paper", "row", "paper", *itertools.chain(*(("ours, " + words, "") for words in PRESETS.values())),
                  "at the bound", "ours, over all", "tuned, over all"], lines)
    counts = ""
    for preset_of, words in ((lambda h: "paper", "the paper's settings (Placeto's with its departures)"),
                             (Headline.papers, "the paper's settings, or the departures where they were run"),
                             (lambda h: "tuned", "the tuned preset")):
        judged = [(paper_of(h), h.met(preset_of(h))) for h in headlines if h.met(preset_of(h)) is not None]
        if not judged:
            continue
        met = {paper: [m for of, m in judged if of == paper] for paper in dict.fromkeys(of for of, _ in judged)}
        each = ["%s %d of %d" % (paper, sum(of), len(of)) for paper, of in met.items()]
        short = ["**%s**" % paper for paper, of in met.items() if sum(of) < TWO_THIRDS * len(of)]
        aim = "missed for " + ", ".join(short) if short else "met"
        counts += textwrap.fill("- With %s: %d of %d rows met (%s). The aim, two thirds of each paper's rows, is %s."
                                % (words, sum(m for _, m in judged), len(judged), ", ".join(each), aim), WIDTH,
                                subsequent_indent="  ") + "\n"
    why = "\n".join(reasons) or "- None does."
    return "%s\n%s\nWhy rows miss:\n\n%s\n" % (text, counts, why)


def with_seeds(text, found):
    """The text and, of several seeds, their number."""
    return "%s (%d)" % (text, len(found)) if len(found) > 1 else text


def final_policies(results, headlines):
    """The confidence of the last policies of the headline rows, of the runs whose entropy is known."""
    lines = []
    for h in headlines:
        cells = []
        for preset in PRESETS:
            known = entropies_of(h.of[preset])
            cells += [entropy_of(results, "%s/%s" % (h.row["name"], preset)),
                      "%d of %d" % (sum(r["saturated"] for r in known), len(known)) if known else "–"]
        if any(cell != "–" for cell in cells):
            lines.append([paper_of(h), named(h.row), *cells])
    return table(["paper", "row", *itertools.chain(*((words, "saturated") for words in PRESETS.values()))], lines, left=2)


def departures(plan):
    """The departures for stability, in words, a line for each table."""
    return "\n".join(textwrap.fill("  - %s: %s." % (paper_named(name), known["words"]), WIDTH, subsequent_indent="    ")
                     for name, known in plan.departures.items())


def paper_named(table_name):
    """The paper of a main table, without its year."""
    return PAPERS[table_name].split(" 20")[0]


def paper_of(headline):
    return paper_named(headline.row["table"])


def named(row):
    return "%s on %s GPUs" % (row["model"], gpus(row))


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
        lines.append([paper_of(h), named(h.row), count(h.paper.get("placements")),
                      h.paper.get("hours", "–") + (" h" if "hours" in h.paper else ""), *cells])
    return table(["paper", "row", "paper: placements", "time", "ours, paper's settings: placements", "time",
                  "ours, tuned: placements", "time"], lines)


def rows_of(results, name):
    return [row for row in results.plan.rows if row["table"] == name]


def counterpart(results, row, folder, preset="paper"):
    """Results, by seed, of the row with the same model and machine in another folder."""
    other = "/".join([folder, *row["name"].split("/")[1:], preset])
    return {result["seed"]: result for result in results.seeds(other)}


def cell_of(results, name):
    """Median and range of a run's seeds, and how many of them were too long."""
    runs, hours = results.seeds(name), results.not_run(name)
    wanted = sum(1 for run, _ in results.wanted if run == name)
    if not runs:
        return "not run: %.1f h" % hours if hours else "–"
    left = "; %d of %d not run: %.1f h" % (wanted - len(runs), wanted, hours) if hours and len(runs) < wanted else ""
    return spread([r["best_s"] for r in runs]) + left


def plain_table(results, name, label, more=(), over=None, tuned=False):
    """Step times of a table's rows, with columns of the paper's words. `over` = (words, folder, presets): also the reduction
    of the folder's row of the same model and machine over this one, the paper's if it has numbers, and ours; a preset of
    the folder for each of this table."""
    presets = ["paper"] + ["tuned"] * tuned
    lines, theirs_known = [], any("reduction" in row["paper"] for row in rows_of(results, name))
    for row in rows_of(results, name):
        theirs = [row["paper"].get(column) for column in more]
        line = [row["model"], gpus(row), *(s if isinstance(s, str) else seconds(s) for s in theirs)]
        line += [cell_of(results, "%s/%s" % (row["name"], preset)) for preset in presets]
        if over:
            line += [percent(row["paper"].get("reduction"))] if theirs_known else []
            for preset, whole in zip(presets, over[2]):
                mine = median([r["best_s"] for r in counterpart(results, row, over[1], whole).values()])
                other = median([r["best_s"] for r in results.seeds("%s/%s" % (row["name"], preset))])
                line.append(percent(1 - mine / other if mine and other else None))
        lines.append(line)
    ours = ["ours, paper's settings", "ours, tuned"] if tuned else ["ours"]
    head = [label, "GPUs", *("paper: " + c for c in more), *("%s: median (range; runs)" % words for words in ours)]
    if over:
        head += ["paper: %s" % over[0]] * theirs_known + ["%s: %s" % (PRESETS[whole], over[0]) for whole in over[2]]
    return table(head, lines)


def entropies_of(found):
    """The results whose entropy is known."""
    return [r for r in found if r.get("entropy") and None not in r["entropy"]]


def entropy_of(results, name):
    """Mean entropy per choice of a device in the first and the last tenth of the updates, as the range of the seeds."""
    known = [r["entropy"] for r in entropies_of(results.seeds(name))]
    ends = [low_to_high([tenths[end] for tenths in known], lambda h: "%.2f" % h) for end in (0, -1)] if known else []
    return ", then ".join(ends) or "–"


def hierarchical_table(results):
    """Table 1 of the Hierarchical Planner with three settings, each with its entropy, and the paper's alternatives."""
    lines = []
    for row in rows_of(results, "hierarchical-1"):
        place = row["name"].split("/")[1:]
        settings = [row["name"] + "/paper", "/".join(["hierarchical-tensorflow", *place, "paper"]), row["name"] + "/stable"]
        others = ["/".join([folder, *place, "paper"]) for folder in ("random-grouping", "simple-planner")]
        cell = lambda run: cell_of(results, run) + " (1)" * (len(results.seeds(run)) == 1)
        lines.append([row["model"], gpus(row), seconds(row["paper"].get("method")),
                      *itertools.chain(*((cell(run), entropy_of(results, run)) for run in settings)),
                      *map(cell, others)])
    return table(["model", "GPUs", "paper", "paper's settings", "entropy", "TensorFlow's code", "entropy", "departures",
                  "entropy", "random grouping", "Simple Planner"], lines)


def placements_to(result, goal_s):
    """Placements after the first update until a step time of at most `goal_s`; infinite if there is none."""
    first = result["placements"] / max(result["updates"], 1)
    at = next((n for n, _, s in result["bests"] if s <= goal_s), math.inf)
    return max(at - first, 0)


def rows_claim(results, text, paper, name, folder, preset="paper", whole=None, why=""):
    """The claim that a folder's rows, as `whole` (by default `preset`), are faster than those of a table with the same model
    and machine, as `preset`."""
    pairs = Pairs()
    for row in rows_of(results, name):
        others = counterpart(results, row, folder, whole or preset)
        for result in results.seeds("%s/%s" % (row["name"], preset)):
            if result["seed"] in others:
                pairs.add(row["name"], result["seed"], others[result["seed"]]["best_s"], result["best_s"])
    return pairs.claim(text, paper, why)


def sooner_claim(results):
    """The claim that Placeto needs fewer placements than the RNN for the RNN's best; the first update's count for
    neither."""
    pairs = Pairs()
    for row in rows_of(results, "placeto-rnn"):
        mine = counterpart(results, row, "placeto")
        for other in results.seeds(row["name"] + "/paper"):
            if other["seed"] in mine and other["best_s"]:
                at = [placements_to(result, other["best_s"]) for result in (mine[other["seed"]], other)]
                pairs.add(row["name"], other["seed"], *(None if math.isinf(n) else max(n, 1) for n in at))
    return pairs.claim("Placeto needs fewer placements than the RNN to reach the RNN's best", "1.3 to 6.1 times; 0.55 once",
                       "same groups; each has its paper's reward")


def orders_claims(results):
    """The claims about orders of the groups that a policy has not seen."""
    found = {"placeto": [], "rnn": []}
    for row in results.plan.orders:
        for result in results.seeds(row["name"]):
            known = [s for s in result["unseen_s"] if s]
            if known:
                found[row["name"].split("/")[1]].append((statistics.fmean(known) / result["best_s"], max(known) / min(known)))
    texts = {"placeto": ("Placeto's placements in unseen orders are near its best", "5 %; 10 % from first to last", 1.05),
             "rnn": ("the RNN's are not", "30 % worse", None)}
    claims = []
    for policy, (text, paper, limit) in texts.items():
        rows = found[policy]
        off, wide = (statistics.fmean(each[k] for each in rows) - 1 if rows else None for k in (0, 1))
        known = "open" if not rows or wide == 0 else "holds" if (off <= 0.05) == (limit is not None) else "**refuted here**"
        claims.append(Claim(text, paper, "–" if not rows else "%+.0f %%; %.0f %% from first to last" % (100 * off, 100 * wide),
                            known, "64 orders, %d seeds" % len(rows),
                            "the same placement in every order shows nothing" if rows and wide == 0 else ""))
    return claims


def headline_claims(headlines):
    """For each paper, how many reductions of its main table are met with its settings and the departures for stability."""
    claims = []
    for paper in dict.fromkeys(paper_of(h) for h in headlines):
        judged = [h for h in headlines if paper_of(h) == paper and h.met(h.papers()) is not None]
        met, beyond = sum(h.met(h.papers()) for h in judged), \
            sum(h.baselines is not None and h.best_possible() < h.goal - WITHIN for h in judged)
        if judged:
            claims.append(Claim("%s reduces step times as in its main table" % paper, "%d rows" % len(judged),
                                "%d rows (departures where they were run), tuned %d" % (met, sum(bool(h.met("tuned")) for h in judged)),
                                "holds" if met == len(judged) else "open", "%d rows" % len(judged),
                                "no placement can in %d of them, by the bound" % beyond if beyond else ""))
    return claims


def claims(results, headlines):
    """Every claim of the four papers, the unit of a test being a graph or a row."""
    return claims_table([
        *headline_claims(headlines),
        rows_claim(results, "the Hierarchical Planner is faster than the Simple Planner", "all but Inception-V3",
                   "simple-planner", "hierarchical", whole="stable"),
        rows_claim(results, "learned groups are faster than random ones", "0 to 63 %", "hierarchical-2", "hierarchical",
                   whole="stable"),
        rows_claim(results, "the same, both tuned", "", "hierarchical-2", "hierarchical", "tuned"),
        rows_claim(results, "Spotlight is faster than REINFORCE", "23.6 to 39.1 %", "spotlight-reinforce", "spotlight",
                   why="same groups and network"),
        rows_claim(results, "the same, both tuned", "", "spotlight-reinforce", "spotlight", "tuned"),
        sooner_claim(results),
        *zero_shot_claims(results),
        *orders_claims(results),
    ])


def orders_table(results):
    """Mean step time over unseen orders, against the best that training saw."""
    lines = []
    for row in results.plan.orders:
        for found in results.seeds(row["name"]):
            known = sorted(s for s in found["unseen_s"] if s)
            mean = statistics.fmean(known) if known else None
            alone = results.baselines(row)["methods"].get("single-gpu")
            same = sum(1 for s in known if alone and abs(s / alone - 1) < 1e-6)
            lines.append([row["model"], found["seed"], row["paper"]["claim"], seconds(found["best_s"]), seconds(mean),
                          percent(1 - mean / found["best_s"]) if mean else "–",
                          percent(1 - known[-1] / known[0]) if known else "–",
                          "%d of %d" % (len(known), len(found["unseen_s"])), "%d of %d" % (same, len(known))])
    return table(["policy", "seed", "paper", "best in training", "mean of unseen orders", "against the best",
                  "slowest against fastest", "fit", "as fast as one GPU"], lines)


def order_of_groups(results):
    """The spread of the Hierarchical Planner's step times over orders of the groups."""
    times = [r["best_s"] for name in ("hierarchical/nmt-4layer/4gpu/stable", "order/nmt-4layer/4gpu/paper")
             for r in results.seeds(name) if r["best_s"]]
    if len(times) < 2:
        return ""
    spread_of_times = 100 * (max(times) / min(times) - 1)
    return "From the fastest to the slowest of %d orders: %.1f %%.\n" % (len(times), spread_of_times)


def below_one_gpu(results):
    """Placements until the first one that is faster than one GPU: Spotlight, and REINFORCE with the same groups."""
    lines = []
    for row in rows_of(results, "spotlight-1"):
        known = results.baselines(row)
        alone = known and known["methods"].get("single-gpu")
        if not alone:
            continue
        cells = []
        for preset, folder in itertools.product(("paper", "tuned"), ("spotlight", "reinforce")):
            first = [next((n for n, _, s in r["bests"] if s < alone), math.inf)
                     for r in counterpart(results, row, folder, preset).values()]
            at = statistics.median(first) if first else None
            cells.append("–" if at is None else "never" if math.isinf(at) else count(round(at)))
        lines.append([named(row), {"2": "20 min, 800", "4": "100 min, 4,000"}[gpus(row)], *cells])
    return table(["row", "paper: time, placements", "Spotlight", "REINFORCE", "Spotlight, tuned", "REINFORCE, tuned"],
                 lines)


def rnn_table(results):
    """Placeto against the RNN: step times, and placements until the RNN's best."""
    lines = []
    for row in rows_of(results, "placeto-rnn"):
        main = next(other for other in rows_of(results, "placeto-1")
                    if other["name"].split("/")[1:] == row["name"].split("/")[1:])
        paper, runs = main["paper"], results.seeds(row["name"] + "/paper")
        mine = counterpart(results, row, "placeto")
        pairs = [(placements_to(mine[r["seed"]], r["best_s"]), placements_to(r, r["best_s"])) for r in runs
                 if r["seed"] in mine and r["best_s"]]
        middle = lambda values: "–" if not values else "never" if math.isinf(statistics.median_low(values)) else \
            count(round(statistics.median_low(values)))
        theirs, ours = (median([r["best_s"] for r in found]) for found in (runs, mine.values()))
        lines.append([row["model"], gpus(row), seconds(paper["rival"]), percent(1 - paper["method"] / paper["rival"]),
                      "%.2g" % (paper["rival_placements"] / paper["placements"]),
                      cell_of(results, row["name"] + "/paper"), percent(1 - ours / theirs if ours and theirs else None),
                      middle([a for a, _ in pairs]), middle([b for _, b in pairs])])
    return table(["model", "GPUs", "paper: RNN", "Placeto over it", "placements, RNN : Placeto", "ours: RNN",
                  "Placeto over it", "placements to the RNN's best: Placeto", "RNN"], lines)


def end_to_end(results):
    """ColocRL 4.4: the hours of a training run of N steps, ours from step times alone."""
    lines = []
    for name, steps, rival, paper in (("colocrl/nmt-2layer/4gpu", 200_000, "expert", "229.6 to 165.7 h, -27.8 %"),
                                      ("colocrl/inception_v3/4gpu", None, "towers-sync", "-19.7 %")):
        row = next((row for row in results.plan.rows if row["name"] == name), None)
        known = row and results.baselines(row)
        if not known:
            continue
        best = {preset: median([r["best_s"] for r in results.seeds("%s/%s" % (name, preset))])
                for preset in ("paper", "tuned")}
        base = known["methods"].get(rival)
        hours = lambda s: "–" if s is None else "%.1f h" % (s * steps / 3600) if steps else "%s s" % seconds(s)
        change = lambda s: "–" if s is None or not base else percent(1 - s / base)
        lines.append([row["model"], "%s steps" % count(steps) if steps else "a step of 32 images", rival, hours(base),
                      hours(best["paper"]), hours(best["tuned"]), paper, change(best["paper"]), change(best["tuned"])])
    return table(["model", "length", "against", "its time", "ours, paper's settings", "ours, tuned", "paper: change",
                  "change, paper's settings", "change, tuned"], lines)


def large_models(results):
    """ColocRL 4.3, with our partitioners and the number of placements that fitted."""
    lines = []
    for row in rows_of(results, "colocrl-large"):
        known = results.baselines(row)["methods"]
        runs = results.seeds(row["name"] + "/paper")
        lines.append([row["model"], gpus(row), seconds(row["paper"]["method"]),
                      cell_of(results, row["name"] + "/paper"),
                      ", ".join("%s of %s" % (count(r["valid"]), count(r["placements"])) for r in runs) or "–",
                      ", ".join(count(r["bests"][-1][0]) for r in runs if r["bests"]) or "–",
                      *(seconds(known.get(name)) for name in ("scotch", "metis", "expert"))])
    return table(["model, LSTM size, batch", "GPUs", "paper: method", "ours", "fitted", "best at placement", "Scotch",
                  "Metis", "expert"], lines)


SETUP = pathlib.Path(__file__).with_name("papers_setup.md")


def page(results, pictures):
    """The text of the page; `pictures` maps a picture's name to its title."""
    headlines = headline_rows(results)
    known = [results.rows[key] for key in results.wanted if key in results.rows]
    too_long = sum("estimated_core_s" in row for row in known)
    done, long = len(known) - too_long, "; %d are above the limit of time" % too_long if too_long else ""
    commits = sorted({row["commit"] for row in results.rows.values()})
    image = lambda name: "![%s](papers/%s.svg)\n" % (pictures[name], name) if name in pictures else ""
    core_hours = sum(row.get("core_s", 0) for row in results.rows.values()) / 3600
    mains = "".join("### %s\n\n%s\n" % (title, step_times(results, headlines, name)) for name, title in PAPERS.items())
    return f"""# The papers' experiments, and ours beside them

{claims(results, headlines)}
A claim of order is tested on graphs or rows, each with its mean over the seeds: it **holds**, or is **refuted here**,
with p < 0.05 (one-sided sign test), else it is open. Pairs of one graph with several seeds are not independent, so they
stand in brackets only.

`bench/papers.py page` writes this page from `docs/results/papers.jsonl`; do not edit it. `bench/papers.py run`
continues with the runs that are missing: {done} of {len(results.wanted)} have results, in {core_hours:.1f}
core-hours{long}.
`configs/papers/experiments.toml` lists every row, `configs/papers/headline.toml` the headline rows.
{textwrap.fill("Commits of the results (+: with uncommitted changes): %s." % ", ".join(commits), WIDTH)}

- **Paper's settings**: the config in `configs/papers`; the table at the end has its length beside the paper's.
  Placeto's depart from its authors' settings, which saturate the policy ([set-up](#set-up)).
- **Departures for stability** are the paper's settings with a change that is meant to keep a policy from saturating
  ([whether it does](#final-policies)):
{departures(results.plan)}
- **Tuned**: `policy.preset = "tuned"`, 4,000 placements (Placeto 12,288), from scratch.
- None of them starts at a heuristic; Placeto's episodes with the paper's settings start at a random placement of their
  graph, as in the authors' code.
- Step times [s] are simulated. The graphs have TensorFlow's granularity ([Models](../guide/models.md)), the profiles of
  ColocRL's, the Hierarchical Planner's and Spotlight's machines are calibrated to the papers' step times
  (`docs/reference/machines.md`). Placeto's paper does not name its GPUs, its data set does: K80s of an EC2
  p2.8xlarge, here calibrated, with 8 GB as in the authors' settings and without a CPU, which the baseline of one CPU
  adds. RNNLM has GPUs of 16 GB, because it does not fit in 12 GB here.
- –: nothing fits, or no number. Several seeds: median (range; number of runs).
- A baseline of ours is the best of many variants (`docs/reference/heuristics.md`), so it is stronger than the paper's
  of the same name.
- Which baselines a row is compared with was last changed after its first results.

## Reductions of the step time
Change of the step time over the best baseline: the paper's over the best with a number in its row, ours over the same
kinds; a row is met if it is at most 10 points above the paper's. In brackets: seeds, where there are several. "At the
bound" is what no placement can beat. "Over all" is stricter, of the departures where they were run: over the best of
one device, Scotch, MinCut, Metis and expert, whichever of them the paper has. Where the paper's expert uses one GPU
(Inception-V3 and ResNet-152 of the Hierarchical Planner), the placement of our `expert`, which spreads branches, is
not a baseline of the row. Spotlight's reductions on the CIFAR-10 CNN are over one GPU and over synchronous towers.
Placeto's NMT has one baseline in the paper, the CPU, so its rows show little; "over all" shows more.

{reductions(headlines)}
## Placements and time until the best
ColocRL's hours are those until its best placement. Those of the others, and Spotlight's 20,000 placements, are of whole
runs. The papers measured on hardware; our times are of simulated steps (median of the seeds). An episode of Placeto,
which its paper counts, has a placement for each of its 129 groups (NMT 161) here.

{effort(headlines)}
{image("learning")}
## Final policies
Entropy of a choice of a device [nat], in the first and in the last tenth of the updates (range of the seeds): ln n if n
devices are equally likely, 0 if the choice is certain. Saturated: a gradient below 1e-10 in 50 updates in sequence. Runs of
older commits have no entropy; –: none is known.

{final_policies(results, headlines)}
## Step times [s]

{mains}{image("spotlight")}
## ColocRL, more
### Larger models (4.3)
The paper's experts' placements do not fit. Nor do most of the policy's here, and its best comes before it has learned
anything, so these rows show no more than that a placement exists.

{large_models(results)}
### End to end (4.4)
The paper trains to the end; ours are step times times steps.

{end_to_end(results)}
## Hierarchical Planner, more (section 3)
### Table 1 with three settings
- **Paper's settings**: the rows above. Its rate of 0.1 is 100 times those of ColocRL's and Placeto's presets, and with
  Adam each step moves every parameter by about the rate.
- **TensorFlow's code**: `configs/papers/hierarchical/tensorflow.toml`, with the values that the authors published in
  TensorFlow (`tensorflow/python/grappler/hierarchical_controller.py`, commit c4259089, and `graph_placer.py`, commit
  457db0a8): 20 groups for each device, C = T = 1, a hidden size of 512, one placement per update by one controller,
  noise of half the logits' root mean square for 751 updates, which log p includes, a rate of 0.1 that falls by 5 %
  every 50 updates after 400, and only valid placements after 1,000. After 500 updates groups keep the last drawn
  devices; groupings are drawn to the end.
- **Departures**: as above. So are the other tables of this paper, but random grouping and the Simple Planner, which have
  the rate alone, and tuned rows.

TensorFlow's gradient is not imitated: `process_reward` computes it in a session call of its own, without inputs, which
draws new groups and devices and gives the Placer zeros for the groups. So the reward weighs log p of a sample that was
not measured, and the gradient's mean is 0. Ours is that of the measured sample. Also different here: groups' inputs
(theirs are divided by each group's largest number), the encoder's width (theirs is half of ours), the Grouper (theirs
is linear, with the op's type as a number), the start of the decoder (ours has a layer between), the noise's size, which
our gradient takes as constant, and the length, 2,000 placements instead of an hour; the other rows have 4,000.

Step times [s]: median (range; number of runs), or one run (1). Entropy: of a choice of a device [nat], in the first
and the last tenth of the updates (range of the seeds); a policy that draws all devices equally has ln 3 = 1.10 on 2
GPUs, 1.61 on 4, 2.20 on 8. It includes the noise of TensorFlow's settings.

{hierarchical_table(results)}
### Random grouping under the learned Placer, ten runs (table 2)

{plain_table(results, "hierarchical-2", "model", ("best", "median", "worst"),
             ("learned groups over random", "hierarchical", ["stable", "tuned"]), True)}
### Simple Planner
Paper: in words, against the Hierarchical Planner.

{plain_table(results, "simple-planner", "model", ("claim",),
             ("Hierarchical Planner over it", "hierarchical", ["stable"]))}
### Ten orders of the groups
Each seed has an order of its own; these are 5 more seeds of NMT with 4 layers.

{plain_table(results, "hierarchical-order", "model", ("claim",))}
{order_of_groups(results)}
### One worker and four (figure 3), NMT of 4 layers
A placement per update, 4,000 updates. Figure 3 is about time, and a simulated measurement takes next to none: here the
workers change only which parameters a placement is drawn with.

{plain_table(results, "hierarchical-workers", "workers", ("method", "hours"))}
### Number of groups, NMT of 2 layers
The paper found 256 best of 64 to 1,024 and gives no numbers. 256 is table 1's row with the departures.

{plain_table(results, "hierarchical-groups", "groups")}
## Spotlight, more
### REINFORCE with the same groups and network
The paper's rule is a mean over the groups (5.2); so is this one, with Spotlight's rate.

{plain_table(results, "spotlight-reinforce", "model", ("method", "claim"),
             ("Spotlight over it", "spotlight", ["paper", "tuned"]), True)}
### Placements until one is faster than one GPU (5.3)
The paper draws 40 placements a minute.

{below_one_gpu(results)}
## Placeto, more
### The RNN on Placeto's groups
`configs/papers/placeto/rnn.toml`, as many placements as in the paper.

{rnn_table(results)}
### Intermediate and final rewards
The paper refers to an appendix that our text of it lacks.

{plain_table(results, "placeto-reward", "reward")}
### Unseen graphs of a family (4.2, figure 5) and ablations (4.3)
Two K80s (`nmt`: four) without a CPU. Every episode starts at one fixed random placement of its graph, as in the authors'
code; all policies of a family learn from the same graphs, groups, and numbers of episodes, with the same bonus. Numbers
are geometric means over the 8 test graphs relative to all ops on one GPU, then means over the seeds (lowest to highest).

What the graphs can gain at all:

{gain_table(results)}
The authors trained in a simulator that was close to their hardware. Here our simulator stands for the hardware, and
Placeto's differs from it: a device there sends one transfer at a time. So policies learn with the simulator that judges
them, but for the rows "Placeto's simulator".

Zero-shot is the **last** placement of one greedy pass from the graph's fixed random start, measured once; "best on the
pass" is the authors' measure, "by its simulator" the last placement by Placeto's simulator, where the policy learned
with that. Untrained is the policy before its first update, by the same measure as zero-shot. Optimised is the best
placement of a policy learned on the test graph alone (one seed; 1,600 episodes, `nmt` 800). A policy is saturated if its
gradient was below 1e-10 in 50 updates in sequence.

{policy_table(results)}
### 64 orders in training, 64 unseen ones (4.3)
Inception-V3 on two GPUs. A policy that puts all ops on one GPU in every order shows nothing about orders.

{orders_table(results)}
{image("families")}
{image("ablations")}
{SETUP.read_text()}"""


def write(plan, rows, path, draw=True):
    """Writes the page, and its pictures unless not `draw`."""
    results, path = Results(plan, rows), pathlib.Path(path)
    path.write_text(page(results, papers_pictures.titles(results)))
    if draw:
        papers_pictures.write(results, path.with_suffix(""))
    for run, seed in results.stale:
        print("%s/%s: left out, its setup is not today's" % (run, seed), file=sys.stderr)
