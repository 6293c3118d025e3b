"""Placeto's experiments on families of graphs (4.2, 4.3): one policy learned on the training graphs of a family, then one
greedy pass over each graph it has not seen."""
import dataclasses
import math
import os
import pathlib
import statistics
import tempfile

from papers_claims import Claim, Pairs, verdict
from papers_run import Run, digest, set_keys
from tables import markdown, mean

#: Heuristics whose best stands beside a family's policies; `random` is the best of 100 placements of single ops.
HEURISTICS = ["single-gpu", "random", "round-robin", "contiguous", "expert", "scotch", "mincut", "metis", "m-topo",
              "m-etf", "heft"]
METHODS = {"placeto": "Placeto", "rnn": "RNN", "placeto-simple-aggregator": "simple aggregator",
           "placeto-simple-partitioner": "simple partitioner"}
CLOSE = 1.1  # A step time over that of the optimised policy that counts as close to it.
UNIFORM = 0.98  # Share of the largest entropy above which a policy has not decided anything.
ENTROPY_SHARE = 3 / 8  # Of a run's updates, over which the bonus falls; from the authors' settings.


def family_values(plan, family, method, episodes):
    """The config of a family for a method and a number of episodes; the RNN draws as many placements as Placeto has
    episodes, on the same graphs and groups."""
    values = plan.config(family)
    if method == "rnn":
        rnn = plan.config({"config": "placeto/rnn.toml"})
        same = {key: values[key] for key in ("input", "executor") if key in values}
        updates = episodes // rnn["policy"]["placements"]
        return set_keys({**rnn, **same, "run": values["run"]}, {
            "run.episodes": updates, "policy.entropy_over": round(updates * ENTROPY_SHARE),
            **{"policy." + key: values["policy"][key] for key in ("groups", "entropy", "entropy_end")
               if key in values["policy"]}})
    updates = episodes // values["pipeline"]["batch_episodes"]
    return set_keys(values, {"policy.method": method, "run.episodes": episodes, "policy.linear_over": updates,
                             "policy.entropy_over": round(updates * ENTROPY_SHARE)})


def confidence(trained):
    """Of a run's policy: the mean entropy per choice [nat] of each tenth of its updates, and whether it saturated."""
    return {"entropy": [float("%.3g" % each) for each in trained["entropy"]], "saturated": trained["saturated"]}


def graphs_of(family):
    """The name of the family's folder of graphs."""
    return family.get("graphs", family["name"])


def executor_of(values):
    """The model that a config's steps are measured with."""
    return values.get("executor", {}).get("kind", "sim")


def family_runs(plan, family):
    """Every run of a family, the short trainings of all methods first."""
    yield GainRun(plan, family)
    for length in family["lengths"]:
        for seed in length["seeds"]:
            for method in family["methods"]:
                yield FamilyRun(plan, family, method, length["episodes"], seed)
    for method, episodes in family.get("optimised", {}).items():
        yield OptimisedRun(plan, family, method, episodes)


class FamilyRun(Run):
    """One policy learned on a family's training graphs, and its greedy pass over each test graph: by our simulator, which
    stands for the paper's hardware, and the last placement by the simulator that it learned with, too. The same policy
    before its first update stands for the untrained one."""

    def __init__(self, plan, family, method, episodes, seed):
        self.family, self.method, self.seed = family, method, seed
        self.name = "%s/%d/%s" % (family["name"], episodes, method)
        self.seeds = len(next(each["seeds"] for each in family["lengths"] if each["episodes"] == episodes))
        self.values = family_values(plan, family, method, episodes)
        self.devices = pathlib.Path(self.values["input"]["devices"]).stem
        self.setup = digest([self.values, plan.graphs[graphs_of(family)], plan.machine(self.devices)])

    def execute(self, bench, share=1.0):
        folder = bench.graph_path(graphs_of(self.family))
        with tempfile.TemporaryDirectory(prefix="emplace-papers-") as scratch:
            values = bench.with_inputs(self.values, self.devices, graphs=[str(folder / "train-*")])
            batch = values["pipeline"]["batch_episodes"]
            values["run"]["episodes"] = max(2 * batch, math.ceil(values["run"]["episodes"] * share))
            trained, core_s = bench.run_config(values, pathlib.Path(scratch), self.seed)
            values["run"]["episodes"], values["policy"]["learning_rate"] = batch, 1e-30
            _, more_s = bench.run_config(values, pathlib.Path(scratch), self.seed, "untrained")
            greedy = lambda policy, executor: [self.greedy_pass(bench, os.path.join(scratch, policy), executor, test)
                                               for test in sorted(folder.glob("test-*"))]
            passes, before = greedy("run", "sim"), greedy("untrained", "sim")
            by_training = passes if executor_of(self.values) == "sim" else greedy("run", executor_of(self.values))
        return {"zero_shot_s": [steps[-1] for steps in passes],
                "best_on_pass_s": [min(filter(None, steps), default=None) for steps in passes],
                "start_s": [steps[0] for steps in passes], "untrained_s": [steps[-1] for steps in before],
                "by_training_s": [steps[-1] for steps in by_training], **confidence(trained),
                "updates": trained["updates"], "placements": trained["measurements"], "core_s": round(core_s + more_s, 1)}

    def greedy_pass(self, bench, policy, executor, test):
        """Step times from the start to the likeliest placement, None for what does not fit; of the RNN the last alone."""
        how = ["--policy", policy, "--executor", executor, *([] if self.method == "rnn" else ["--pass"])]
        found = bench.place(how, test, self.devices, self.seed)
        return found.get("pass_s", [found["measured"]["step_time_s"]]) if found else [None]

    def estimate(self, bench):
        share = 0.02
        return self.execute(bench, share)["core_s"] / share


class OptimisedRun(Run):
    """A policy learned on each test graph of a family by itself, by the family's config with fewer episodes; its best
    placement by our simulator."""

    def __init__(self, plan, family, method, episodes):
        self.family, self.seed, self.name = family, 1, "%s/optimised/%s" % (family["name"], method)
        self.values = family_values(plan, family, method, episodes)
        self.devices = pathlib.Path(self.values["input"]["devices"]).stem
        self.setup = digest([self.values, plan.graphs[graphs_of(family)], plan.machine(self.devices)])

    def execute(self, bench):
        found, core_s = [], 0
        for test in sorted(bench.graph_path(graphs_of(self.family)).glob("test-*")):
            with tempfile.TemporaryDirectory(prefix="emplace-papers-") as scratch:
                values = bench.with_inputs(self.values, self.devices, graph=str(test))
                result, more_s = bench.run_config(values, pathlib.Path(scratch), self.seed)
                core_s += more_s
                best = result and bench.evaluated(test, self.devices, result["recommended"]["placement"])
                found.append({"best_s": best, **(confidence(result) if result else {"entropy": [], "saturated": False})})
        return {**{key: [each[key] for each in found] for key in ("best_s", "entropy", "saturated")},
                "core_s": round(core_s, 1)}


class GainRun(Run):
    """What each test graph can gain at all: one GPU, random placements, the best heuristic, and the bound; and one GPU by
    the simulator that the family's policies learn with."""

    def __init__(self, plan, family):
        self.family, self.seed, self.name = family, 1, "%s/gain" % family["name"]
        values = plan.config(family)
        self.devices, self.executor = pathlib.Path(values["input"]["devices"]).stem, executor_of(values)
        self.setup = digest([plan.graphs[graphs_of(family)], plan.machine(self.devices), self.executor, HEURISTICS])

    def execute(self, bench):
        found, core_s = [], 0
        for test in sorted(bench.graph_path(graphs_of(self.family)).glob("test-*")):
            table, more_s = bench.compare(test, bench.device_file(self.devices), HEURISTICS, self.seed)
            alone = bench.place(["-m", "single-gpu", "--executor", self.executor], test, self.devices, self.seed)
            core_s += more_s
            found.append({**{m["method"]: m["step_time_s"] for m in table["methods"]}, "bound": table["lower_bound_s"],
                          "by-training": alone and alone["measured"]["step_time_s"]})
        return {"methods": {name: [each.get(name) for each in found] for name in [*HEURISTICS, "bound", "by-training"]},
                "core_s": round(core_s, 1)}


# --- The tables of the page --------------------------------------------------------------------------------------------


def short(family):
    return family.get("words", family["name"].removeprefix("family-"))


def over(times, base):
    """Geometric mean of times[k] / base[k] over the test graphs; None if a placement does not fit."""
    return None if None in times else mean([a / b for a, b in zip(times, base)])


def ratio(value):
    return "–" if value is None else "%.2f" % value


def spread(values):
    """Mean over seeds, and the range of several; "–" without values or where one is missing."""
    if not values or None in values:
        return "–"
    text = ratio(statistics.fmean(values))
    return text if len(values) == 1 else "%s (%s to %s)" % (text, ratio(min(values)), ratio(max(values)))


class Family:
    """The results of a family. Ratios are to all ops on one GPU."""

    def __init__(self, results, family):
        self.results, self.family = results, family
        gain = results.seeds("%s/gain" % family["name"])
        self.methods = gain[0]["methods"] if gain else None
        self.one_gpu = self.methods and self.methods["single-gpu"]
        machine = results.plan.machine(pathlib.Path(results.plan.config(family)["input"]["devices"]).stem)
        self.most_entropy = math.log(len(machine["device"]))

    def trained(self, episodes, method):
        return self.results.seeds("%s/%d/%s" % (self.family["name"], episodes, method))

    def optimised(self, method):
        found = self.results.seeds("%s/optimised/%s" % (self.family["name"], method))
        return found[0]["best_s"] if found else None

    def lengths(self):
        """Numbers of episodes that Placeto has results of, the longest first."""
        return sorted((each["episodes"] for each in self.family["lengths"] if self.trained(each["episodes"], "placeto")),
                      reverse=True)

    def best_heuristic(self):
        return [min(s for s in graph if s) for graph in zip(*(self.methods[name] for name in HEURISTICS if name != "random"))]

    def pairs(self, found, other):
        """Adds the zero-shot step times of Placeto and of another method, from the longest training of both."""
        for episodes in self.lengths():
            theirs = {row["seed"]: row for row in self.trained(episodes, other)}
            mine = [row for row in self.trained(episodes, "placeto") if row["seed"] in theirs]
            for row in mine:
                for k, times in enumerate(zip(row["zero_shot_s"], theirs[row["seed"]]["zero_shot_s"])):
                    found.add((short(self.family), k), row["seed"], *times)
            if mine:
                return


def families_of(results):
    """Families with results of what they can gain. Those that borrow their graphs from another one are not `own`."""
    return [family for family in (Family(results, each) for each in results.plan.families) if family.one_gpu]


def own(families):
    return [family for family in families if "graphs" not in family.family]


def gain_table(results):
    """What the unseen graphs can gain at all."""
    lines = []
    for family in own(families_of(results)):
        starts = [over(row["start_s"], family.one_gpu) for episodes in family.lengths()[:1]
                  for row in family.trained(episodes, "placeto")]
        lines.append([short(family.family), "%.0f" % (1e3 * mean(family.one_gpu)), spread(starts),
                      *(ratio(over(times, family.one_gpu)) for times in
                        (family.methods["random"], family.best_heuristic(), family.methods["bound"]))])
    return markdown(["family", "one GPU [ms]", "a random placement", "best of 100 random", "best heuristic", "bound"], lines)


def policy_table(results):
    """Every policy of every family and length: its last placement on one greedy pass over each unseen graph."""
    lines = []
    for family in families_of(results):
        for episodes in family.lengths():
            for method in family.family["methods"]:
                rows, optimised = family.trained(episodes, method), family.optimised(method)
                if not rows:
                    continue
                of = lambda key: [over(row[key], family.one_gpu) for row in rows]
                worst = [max(a / b if a else math.inf for a, b in zip(row["zero_shot_s"], family.one_gpu)) for row in rows]
                lines.append([
                    short(family.family), METHODS[method], "{:,}".format(episodes), len(rows), spread(of("zero_shot_s")),
                    ratio(max(worst)), spread(of("best_on_pass_s")),
                    spread([over(row["by_training_s"], family.methods["by-training"]) for row in rows
                            if row["by_training_s"] != row["zero_shot_s"]]),
                    spread(of("untrained_s")),
                    ratio(optimised and over(optimised, family.one_gpu)),
                    spread([over(row["zero_shot_s"], optimised) for row in rows] if optimised else []),
                    entropies(rows), "%d of %d" % (sum(row["saturated"] for row in rows), len(rows))])
    return markdown(["family", "policy", "episodes", "seeds", "zero-shot", "worst graph", "best on the pass",
                     "by its simulator", "untrained", "optimised", "zero-shot over optimised", "entropy, tenths 1, 5, 10", "saturated"], lines, left=2)


def entropies(rows):
    """Mean over seeds of the entropy in the first, fifth and last tenth of the updates."""
    known = [row["entropy"] for row in rows if row["entropy"]]
    at = lambda k: statistics.fmean(each[min(k, len(each) - 1)] for each in known)
    return ", ".join("%.2g" % at(k) for k in (0, 4, 9)) if known else "–"


def zero_shot_claims(results):
    """The claims of 4.2 and 4.3 about graphs that a policy has not seen. A comparison with saturated policies is open."""
    known = own(families_of(results))
    ratios, near, far = {}, 0, 0
    for family in known:
        rows, optimised = family.trained(family.lengths()[0], "placeto") if family.lengths() else [], family.optimised("placeto")
        if rows and optimised and None not in [s for row in rows for s in row["zero_shot_s"]]:
            ratios[short(family.family)] = [over(row["zero_shot_s"], optimised) for row in rows]
            graphs = [mean([row["zero_shot_s"][k] / best for row in rows]) for k, best in enumerate(optimised)]
            near += sum(each <= CLOSE for each in graphs)
            far += sum(each > CLOSE for each in graphs)
    claims = [Claim("Placeto zero-shot is close to Placeto optimised", "very close (figure 5)",
                    "%s; %d of %d graphs within 10 %%" % (", ".join("%s %s" % (name, spread(each)) for name, each in
                                                                    ratios.items()), near, near + far) if ratios else "–",
                    verdict(near, far),
                    "%d graphs, %s seeds" % (near + far, "/".join(str(len(each)) for each in ratios.values()) or "no"),
                    "zero-shot over the best of a policy learned on the graph")]
    for text, paper, other in (
            ("Placeto zero-shot is faster than the RNN zero-shot", "yes; the RNN is like random", "rnn"),
            ("message passing and three pools are better than one sum (simple aggregator)", "20 % on `nmt`",
             "placeto-simple-aggregator"),
            ("message passing is better than none (simple partitioner)", "13 % on `nmt`", "placeto-simple-partitioner")):
        pairs = Pairs()
        for family in known:
            family.pairs(pairs, other)
        rows = [(family, row) for family in known for episodes in family.lengths()
                for row in family.trained(episodes, other)]
        saturated = sum(row["saturated"] for _, row in rows)
        uniform = sum(row["entropy"][-1] > UNIFORM * family.most_entropy for family, row in rows)
        claim = pairs.claim(text, paper, "; ".join("%d of %d of the others' policies are %s" % (number, len(rows), words)
                                                   for number, words in ((saturated, "saturated"),
                                                                         (uniform, "uniform to the end")) if number))
        claims.append(dataclasses.replace(claim, verdict="open") if saturated else claim)
    return claims
