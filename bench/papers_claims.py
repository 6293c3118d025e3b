"""What the four papers claim beyond the step times of their tables, and what became of it here: the first table of the
page of bench/papers.py. The unit of a test is a graph (or a row of a table), its value the mean over seeds; pairs of one
graph with several seeds are not independent."""
import dataclasses
import math
import statistics

from tables import markdown as table

EQUAL = 1e-3  # Step times this close, as a share, count as equal.


@dataclasses.dataclass
class Claim:
    """A line of the table. `verdict`: holds, refuted on these graphs, or open."""

    text: str
    paper: str
    ours: str
    verdict: str
    n: str
    why: str

    def cells(self):
        return [self.text, self.paper, self.ours, self.verdict, self.n, self.why]


def claims_table(claims):
    return table(["claim", "paper", "ours", "", "n", "why"], [claim.cells() for claim in claims], left=6)


def sign_test(wins, losses):
    """One-sided p of at least `wins` of wins + losses fair coins."""
    total = wins + losses
    return sum(math.comb(total, k) for k in range(wins, total + 1)) / 2 ** total if total else 1.0


def order(mine, other):
    """1 if the first step time is lower, -1 if the second is, 0 if they are equal; None is the slowest."""
    a, b = (math.inf if value is None else value for value in (mine, other))
    return 0 if a == b or abs(a - b) <= EQUAL * min(a, b) else 1 if a < b else -1


def verdict(wins, losses):
    if wins + losses == 0:
        return "open"
    return "holds" if sign_test(wins, losses) < 0.05 else \
        "**refuted here**" if sign_test(losses, wins) < 0.05 else "open"


class Pairs:
    """Step times of two methods on the same graphs and seeds."""

    def __init__(self):
        self.by_graph = {}  # graph: {seed: (mine, other)}

    def add(self, graph, seed, mine, other):
        self.by_graph.setdefault(graph, {})[seed] = (mine, other)

    def means(self):
        """[graphs] (mine, other): geometric means over the seeds; None where a seed has no placement that fits."""
        mean = lambda values: None if None in values else math.exp(statistics.fmean(map(math.log, values)))
        return [tuple(mean([pair[k] for pair in seeds.values()]) for k in (0, 1)) for seeds in self.by_graph.values()]

    def outcomes(self):
        """Wins, losses, and ties over graphs."""
        found = [order(*pair) for pair in self.means()]
        return found.count(1), found.count(-1), found.count(0)

    def seeds(self):
        """{seed: (wins, losses)}"""
        found = {}
        for graph in self.by_graph.values():
            for seed, pair in graph.items():
                found.setdefault(seed, []).append(order(*pair))
        return {seed: (each.count(1), each.count(-1)) for seed, each in sorted(found.items())}

    def ratio(self):
        """Geometric mean over the graphs of other / mine; None without graphs where both fit."""
        known = [other / mine for mine, other in self.means() if mine and other]
        return math.exp(statistics.fmean(map(math.log, known))) if known else None

    def claim(self, text, paper, why=""):
        """The claim that the first is faster. Per seed it is in brackets."""
        wins, losses, ties = self.outcomes()
        if not self.by_graph:
            return Claim(text, paper, "–", "open", "0", "not run")
        seeds = ", ".join("%d:%d" % each for each in self.seeds().values())
        ratio = self.ratio()
        ours = "%d won, %d lost, %d equal" % (wins, losses, ties)
        if ratio is not None:
            ours += "; the other takes %.0f %% %s" % (100 * abs(ratio - 1), "more" if ratio >= 1 else "less")
        p = sign_test(max(wins, losses), min(wins, losses))
        return Claim(text, paper, ours, verdict(wins, losses),
                     "%d graphs, %d seeds" % (len(self.by_graph), len(self.seeds())),
                     (why + "; " if why else "") + "p = %.2g; by seed %s" % (p, seeds))
