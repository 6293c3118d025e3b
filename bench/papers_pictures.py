"""The pictures of bench/papers.py's page, as SVG. Needs matplotlib (Debian: python3-matplotlib)."""
import itertools

import papers_page
from papers_claims import Pairs
from papers_families import families_of, own, short
from tables import Failed

#: Name of a picture: its title.
TITLES = {
    "learning": "Best step time over the bound, by placements: headline rows, seed 1",
    "spotlight": "Mean step time drawn, by placements: Spotlight and REINFORCE with the same groups",
    "families": "Step times of 8 unseen graphs: zero-shot, optimised, random",
    "ablations": "Step times of ablations over those of the whole method",
}


def plots():
    """matplotlib's module, set so that the same numbers give the same bytes and text stays text."""
    try:
        import matplotlib
    except ImportError as error:
        raise Failed("matplotlib is missing; apt-get install python3-matplotlib, or use --no-pictures") from error
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "emplace", "svg.fonttype": "none", "font.size": 9, "axes.grid": True,
                                "grid.alpha": 0.3, "axes.spines.top": False, "axes.spines.right": False})
    from matplotlib import pyplot
    return pyplot


def titles(results):
    """The titles, by name, of the pictures that the results have data for."""
    known = {"learning": any(h.times("paper") for h in papers_page.headline_rows(results)),
             "spotlight": spotlight_rows(results),
             "ablations": ablations(results),
             "families": learned_families(results)}
    return {name: title for name, title in TITLES.items() if known[name]}


def write(results, folder):
    """Writes the pictures of titles()."""
    pyplot = plots()
    folder.mkdir(parents=True, exist_ok=True)
    draw = {"learning": draw_learning, "spotlight": draw_spotlight, "families": draw_families,
            "ablations": draw_ablations}
    for name in titles(results):
        figure = draw[name](pyplot, results)
        figure.tight_layout()
        figure.savefig(folder / (name + ".svg"), metadata={"Date": None, "Creator": None})
        pyplot.close(figure)


def spotlight_rows(results):
    """Rows with results of both Spotlight and REINFORCE."""
    return [row for row in papers_page.rows_of(results, "spotlight-1")
            if results.seeds(row["name"] + "/paper") and papers_page.counterpart(results, row, "reinforce")]


def ablations(results):
    """For each ablation: its words, and ratios of its step times to those of the whole method, one for each pair of the
    same row or test graph, and seed."""
    found = {}
    for words, table, folder, preset in (("Simple Planner", "simple-planner", "hierarchical", "stable"),
                                         ("random grouping", "hierarchical-2", "hierarchical", "stable"),
                                         ("REINFORCE", "spotlight-reinforce", "spotlight", "paper")):
        for row in papers_page.rows_of(results, table):
            whole = papers_page.counterpart(results, row, folder, preset)
            found.setdefault(words, []).extend(
                r["best_s"] / whole[r["seed"]]["best_s"] for r in results.seeds(row["name"] + "/paper")
                if r["seed"] in whole and r["best_s"] and whole[r["seed"]]["best_s"])
    for words, method in (("simple aggregator", "placeto-simple-aggregator"),
                          ("simple partitioner", "placeto-simple-partitioner")):
        pairs = Pairs()
        for family in families_of(results):
            family.pairs(pairs, method)
        found.setdefault(words, []).extend(b / a for a, b in pairs.means() if a and b)
    final = {r["seed"]: r["best_s"] for r in results.seeds("final-reward/inception_v3/2gpu/paper")}
    for r in results.seeds("intermediate-reward/inception_v3/2gpu/paper"):
        if final.get(r["seed"]):
            found.setdefault("final reward", []).append(final[r["seed"]] / r["best_s"])
    return {words: ratios for words, ratios in found.items() if ratios}


def draw_ablations(pyplot, results):
    """A point per pair; above 1 the ablation is slower."""
    known = ablations(results)
    figure, axis = pyplot.subplots(figsize=(8, 3.4))
    for place, (words, ratios) in enumerate(known.items()):
        spread = [place + 0.3 * (k / max(len(ratios) - 1, 1) - 0.5) for k in range(len(ratios))]
        axis.plot(spread, sorted(ratios), "o", markersize=3, color="tab:blue")
    axis.axhline(1, color="black", linewidth=0.8)
    axis.set(yscale="log", ylabel="step time / whole method")
    axis.set_yticks([0.5, 0.7, 1, 1.4, 2], ["0.5", "0.7", "1", "1.4", "2"])
    axis.minorticks_off()
    axis.set_xticks(range(len(known)), ["%s\n(%d)" % (words, len(ratios)) for words, ratios in known.items()],
                    fontsize=8)
    return figure


def draw_learning(pyplot, results):
    """A panel per main table: best so far over the bound, both axes logarithmic."""
    figure, axes = pyplot.subplots(2, 2, figsize=(9, 7))
    for axis, (name, title) in zip(axes.flat, papers_page.PAPERS.items()):
        for color, row in zip(itertools.cycle(pyplot.get_cmap("tab10").colors), papers_page.rows_of(results, name)):
            known = results.baselines(row)
            for preset, style in (("paper", "-"), ("tuned", ":")):
                found = [r for r in results.seeds("%s/%s" % (row["name"], preset)) if r["seed"] == 1 and r["bests"]]
                if not found or not known:
                    continue
                points = found[0]["bests"] + [[found[0]["placements"], 0, found[0]["bests"][-1][2]]]
                axis.step([p[0] for p in points], [p[2] / known["bound_s"] for p in points], style, color=color,
                          linewidth=1.2, where="post", label=papers_page.named(row) if style == "-" else None)
        axis.set(xscale="log", yscale="log", title=title, xlabel="placements", ylabel="step time / bound")
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize=7)
    figure.text(0.5, 0.005, "solid: the paper's settings; dotted: tuned", ha="center", fontsize=8)
    return figure


def draw_spotlight(pyplot, results):
    """A panel per row: the mean step time that each method draws."""
    rows = spotlight_rows(results)
    figure, axes = pyplot.subplots(1, len(rows), figsize=(3.2 * len(rows) + 1, 3.2), squeeze=False)
    for axis, row in zip(axes.flat, rows):
        for folder, color in (("spotlight", "tab:blue"), ("reinforce", "tab:orange")):
            for result in papers_page.counterpart(results, row, folder).values():
                width = result["placements"] / len(result["means"])
                points = [(width * (k + 0.5), mean) for k, mean in enumerate(result["means"]) if mean]
                axis.plot(*zip(*points), color=color, linewidth=1,
                          label={"spotlight": "Spotlight", "reinforce": "REINFORCE"}[folder])
        axis.set(title=papers_page.named(row), xlabel="placements", ylabel="mean step time [s]")
        labels = dict(zip(*reversed(axis.get_legend_handles_labels())))
        axis.legend(labels.values(), labels.keys(), fontsize=7)
    return figure


def learned_families(results):
    return [family for family in own(families_of(results)) if family.lengths()]


def draw_families(pyplot, results):
    """A panel per family: distribution over its test graphs of the step time over one GPU's."""
    families = learned_families(results)
    figure, axes = pyplot.subplots(1, len(families), figsize=(10, 3.4), squeeze=False)
    for axis, family in zip(axes.flat, families):
        episodes = family.lengths()[0]
        placeto, rnn = (family.trained(episodes, method) for method in ("placeto", "rnn"))
        lines = [("zero-shot", "tab:blue", [row["zero_shot_s"] for row in placeto]),
                 ("a random placement", "tab:cyan", [row["start_s"] for row in placeto]),
                 ("optimised", "tab:green", [family.optimised("placeto")]),
                 ("RNN zero-shot", "tab:orange", [row["zero_shot_s"] for row in rnn]),
                 ("RNN optimised", "tab:red", [family.optimised("rnn")]),
                 ("best heuristic", "tab:gray", [family.best_heuristic()])]
        for label, color, found in lines:
            for number, times in enumerate(each for each in found if each):
                shares = sorted(a / b for a, b in zip(times, family.one_gpu) if a)
                axis.step(shares, [(k + 1) / len(times) for k in range(len(shares))], where="post", color=color,
                          linewidth=1.2, label=label if number == 0 else None)
        axis.set(title=short(family.family), xlabel="step time / one GPU", ylabel="share of test graphs")
        axis.legend(fontsize=7)
    return figure
