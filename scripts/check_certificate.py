#!/usr/bin/env python3
"""Checks certificates of lower bounds, as `emplace bound --certificate FILE` writes them.

usage: scripts/check_certificate.py FILE [GRAPH]

FILE contains a claim (no placement has a smaller objective), the costs and dependencies that it is about, and a
witness. This program proves the claim by the theorems of docs/proofs/certificates.md or refuses it. With GRAPH (format
`emplace-graph v1`) it also compares the data with the graph, by certificate_graph.py.

Exit status: 0: proved. 1: not proved, or not about GRAPH. 2: malformed, or wrong usage. It prints one line.
"""
import collections
import graphlib
import itertools
import json
import math
import sys
from fractions import Fraction

NEVER = 1 << 100  # Later than any time.
MOST = 1 << 62  # Greatest number of a certificate.
OBJECTIVES = {"step-time": ("ns", {"path", "work", "route", "window", "waiting"}), "latency": ("ps", {"path", "ideals"}),
              "max-load": ("ps", {"work", "class"}), "throughput": ("ps", {"work", "class"})}


class Malformed(Exception):
    """Not a certificate."""


class Unproved(Exception):
    """A certificate whose witness does not prove its claim, or that is not about the graph."""


def need(holds, why):
    if not holds:
        raise Malformed(why)


def whole(value, what, limit=MOST):
    need(type(value) is int and 0 <= value < limit, what + " is not a whole number in range")
    return value


def number(value, what):
    need(type(value) in (int, Fraction) and 0 <= value < MOST, what + " is not a number in range")
    return value


def listed(value, what, size=None):
    need(isinstance(value, list) and (size is None or len(value) == size), what + " is not a list of the right length")
    return value


def wholes(value, what, size=None, limit=MOST):
    return [whole(item, what, limit) for item in listed(value, what, size)]


def fraction(text):
    need(len(text) < 40 and len(text.lower().partition("e")[2].lstrip("+-0")) < 4, "a number is out of range")
    return Fraction(text)


def parse(text):
    try:
        document = json.loads(text, parse_float=fraction, parse_constant=Fraction)
    except (ValueError, RecursionError) as error:
        raise Malformed("is not JSON: %s" % error) from error
    need(isinstance(document, dict) and (document.get("format"), document.get("version")) == ("emplace-certificate", 1),
         "is not a certificate of version 1")
    return document


class Case:
    """The costs and dependencies of a certificate, checked for their form, with derived values."""

    def __init__(self, document):
        self.document, self.name = document, document["graph"]
        self.objective = document["objective"]
        need(self.objective in OBJECTIVES, "objective is unknown")
        self.unit, self.kinds_of_proof = OBJECTIVES[self.objective]
        need(document["unit"] == self.unit, "unit is not that of the objective")
        self.claim = number(document["claim"], "claim")
        self.witness, self.kind = document["witness"], document["witness"]["kind"]
        self.allow = listed(document.get("allow", []), "allow")
        need(not set(self.allow) - {"recompute", "offload"}, "allow has an unknown word")
        machine, ops = document["machine"], document["ops"]
        self.devices, count = listed(machine["devices"], "devices"), len(machine["devices"])
        need(0 < count <= 256, "there are no devices or too many")
        self.rows = listed(machine["rows"], "rows")
        self.row = [whole(device["row"], "row", len(self.rows)) for device in self.devices]
        self.memory = [whole(device["memory_bytes"], "memory_bytes", 1 << 64) for device in self.devices]
        self.latency, self.rate = ([[float(number(x, key)) for x in listed(line, key, count)]
                                    for line in listed(machine[key], key, count)] for key in ("latency_s", "bytes_per_s"))
        need(all(rate > 0 for line in self.rate for rate in line), "bytes_per_s is 0")
        for s, by, t in itertools.permutations(range(count), 3) if "offload" in self.allow else ():
            need(self.latency[s][t] <= self.latency[s][by] + self.latency[by][t]
                 and self.rate[s][t] >= min(self.rate[s][by], self.rate[by][t]), "a link is slower than a detour")
        self.names, self.ops = listed(ops["name"], "name"), len(ops["name"])
        self.times = [wholes(line, "times", self.ops) for line in listed(ops["times"], "times", len(self.rows))]
        self.choices = [wholes(choice, "choices", None, count) for choice in listed(document["choices"], "choices")]
        need(all(self.choices), "a choice has no device")
        classes = wholes(document["classes"], "classes", None, len(self.choices))
        self.op_class = wholes(ops["class"], "class", self.ops, len(classes))
        self.state = [0] * len(classes)  # Per class [B].
        if self.objective == "step-time":
            self.read_lowering(ops, document["buffers"])
            fitting = self.fitting(classes)
        else:
            self.makers = [wholes(of, "makers", None, self.ops) for of in listed(ops["makers"], "makers", self.ops)]
            fitting = [self.choices[choice] for choice in classes]
        self.may = [tuple(sorted(set(devices))) for devices in fitting]  # Devices of each class.
        try:
            self.order = list(graphlib.TopologicalSorter(dict(enumerate(self.makers))).static_order())
        except graphlib.CycleError as error:
            raise Malformed("dependencies have a cycle") from error

    def read_lowering(self, ops, buffers):
        self.kernel = wholes(ops["kernel"], "kernel", self.ops, 2)
        self.in_place = wholes(ops["in_place"], "in_place", self.ops, 2)
        self.state_bytes = wholes(ops["state_bytes"], "state_bytes", self.ops)
        self.owner = wholes(buffers["op"], "op of a buffer", None, self.ops)
        size = len(self.owner)
        self.bytes = wholes(buffers["bytes"], "bytes", size)
        self.base = wholes(buffers["base"], "base", size, size)
        self.resident = wholes(buffers["state"], "state of a buffer", size, 2)
        self.reads = [wholes(of, "reads", None, size) for of in listed(ops["reads"], "reads", self.ops)]
        for b in range(size):
            base = self.base[b]
            need(self.base[base] == base and self.owner[base] == self.owner[b] and self.bytes[b] <= self.bytes[base],
                 "a buffer is not part of its base")
            need(self.resident[b] != self.kernel[self.owner[b]], "a buffer is not state and is not made by a kernel")
        for op in range(self.ops):
            need(self.kernel[op] or not (self.reads[op] or any(line[op] for line in self.times)), "state reads or takes time")
            need(len(set(self.reads[op])) == len(self.reads[op]), "an op reads a buffer twice")
        self.makers = [[self.owner[b] for b in of] for of in self.reads]

    def fitting(self, classes):
        """The devices that can hold a class and the largest of its kernels (theorem 1)."""
        outputs = [0] * self.ops
        for b, owner in enumerate(self.owner):
            if self.base[b] == b and not self.in_place[owner]:
                outputs[owner] += self.bytes[b]
        largest = [0] * len(classes)
        for op in range(self.ops):
            mine = self.op_class[op]
            self.state[mine] += self.state_bytes[op]
            if not self.kernel[op]:
                continue
            copied, live = collections.Counter(), outputs[op]
            for b in self.reads[op]:
                copied[self.base[b]] += self.bytes[b]
            for base, moved in copied.items():
                owner = self.owner[base]
                foreign = self.op_class[owner] != mine if self.resident[base] else not self.in_place[owner]
                live += min(self.bytes[base], moved) if foreign else 0
            largest[mine] = max(largest[mine], live)
        return [[d for d in self.choices[choice] if self.memory[d] >= self.state[c] + largest[c]] or self.choices[choice]
                for c, choice in enumerate(classes)]


class Kinds:
    """A partition of the devices. A time of a kind is the least of its devices, also of a link between two kinds."""

    def __init__(self, case):
        self.groups = [wholes(kind, "kinds", None, len(case.devices)) for kind in listed(case.witness["kinds"], "kinds")]
        members = sorted(d for kind in self.groups for d in kind)
        need(all(self.groups) and members == list(range(len(case.devices))), "kinds are no partition")
        self.of = {d: k for k, kind in enumerate(self.groups) for d in kind}
        self.may = [sorted({self.of[d] for d in devices}) for devices in case.may]
        self.times = []
        for kind in self.groups:
            rows = [case.times[row] for row in {case.row[d] for d in kind}]
            self.times.append(rows[0] if len(rows) == 1 else [min(column) for column in zip(*rows)])
        self.links = {}  # Least latency, with 0.5 for rounding, and least time per byte [ns] between two kinds.
        for s, target in itertools.permutations(self.of, 2):
            pair = (self.of[s], self.of[target])
            old = self.links.get(pair, (math.inf, math.inf))
            self.links[pair] = (min(old[0], case.latency[s][target] * 1e9 + 0.5), min(old[1], 1e9 / case.rate[s][target]))

    def paid(self, prices):
        need(any(prices), "prices are all 0")
        return sum(price * len(kind) for price, kind in zip(prices, self.groups))

    def transfer(self, source, target, size):
        """Time to move `size` bytes, rounded as the definition of the simulator: in double precision."""
        if (source, target) not in self.links:
            return NEVER
        latency, per_byte = self.links[source, target]
        time = latency + float(size) * per_byte
        return int(time) if time < 4e18 else NEVER


def line_length(jobs):
    """The largest least release + time + least tail of a set of jobs (release, time, tail) on one device."""
    worst = 0
    for least in {tail for _, _, tail in jobs}:
        work = 0
        for release, time, tail in sorted(jobs, reverse=True):
            work += time if tail >= least else 0
            worst = max(worst, release + work + least if tail >= least else 0)
    return worst


class Sweep:
    """Earliest starts [op][kind] in one direction of time (theorems 4 and 5). `into`: edges (op, bytes, state)."""

    def __init__(self, case, kinds, order, into, backwards, joins):
        self.case, self.kinds, self.into, self.backwards = case, kinds, into, backwards
        self.start = [[NEVER] * len(kinds.groups) for _ in range(case.ops)]
        wanted = {}
        for op, kind, start, line in (listed(join, "a join", 4) for join in listed(joins, "joins")):
            need((op, kind) not in wanted, "a join is there twice")
            wanted[op, kind] = (whole(start, "start of a join"), wholes(line, "line of a join", None, case.ops))
        for op in order:
            for kind in kinds.may[case.op_class[op]]:
                start = max((self.arrival(op, edge, kind, True) for edge in into[op]), default=0)
                if (op, kind) in wanted:
                    start = max(start, self.joined(op, kind, *wanted[op, kind]))
                self.start[op][kind] = start

    def arrival(self, op, edge, kind, here):
        """When an input is on `op`'s device at the earliest; not `here`: when its maker is on another device."""
        source, size, state = edge
        times, may = self.kinds.times, self.kinds.may[self.case.op_class[source]]
        ready = [0 if state else self.start[source][k] + line[source] for k, line in enumerate(times)]
        best = ready[kind] if here and kind in may else NEVER
        if self.case.op_class[source] != self.case.op_class[op]:
            for k in may:
                moved = self.kinds.transfer(kind, k, size) if self.backwards else self.kinds.transfer(k, kind, size)
                best = min(best, moved + ready[k])
        return best

    def joined(self, op, kind, start, line):
        """Proves that `op` starts at `start` or later on `kind`: else all of `line` would be on its device."""
        offers, jobs, blocked = {}, [], False  # The value of `offers` for an op is (arrival, tail).

        def offer(reader, after):
            for edge in self.into[reader]:
                if not edge[2]:
                    arrival, tail = offers.get(edge[0], (0, 0))
                    offers[edge[0]] = (max(arrival, self.arrival(reader, edge, kind, False) + after), max(tail, after))

        offer(op, 0)
        for i, other in enumerate(line):
            if blocked or other in line[:i] or offers.get(other, (0, 0))[0] < start:
                raise Unproved("op %d: its join does not force op %d on its device" % (op, other))
            blocked = kind not in self.kinds.may[self.case.op_class[other]]
            if not blocked:
                time, tail = self.kinds.times[kind][other], offers[other][1]
                jobs.append((self.start[other][kind], time, tail))
                offer(other, time + tail)
        if not blocked and line_length(jobs) < start:
            raise Unproved("op %d: the ops of its join take less time" % op)
        return start


def sweeps(case, kinds):
    forward, backward = [[] for _ in case.names], [[] for _ in case.names]
    for op, reads in enumerate(case.reads):
        for b in reads:
            forward[op].append((case.owner[b], case.bytes[b], bool(case.resident[b])))
            if not case.resident[b]:
                backward[case.owner[b]].append((op, case.bytes[b], False))
    order = [op for op in case.order if case.kernel[op]]
    heads = Sweep(case, kinds, order, forward, False, case.witness["joins"]["heads"]).start
    return heads, Sweep(case, kinds, order[::-1], backward, True, case.witness["joins"]["tails"]).start


def scaled(values, what, size):  # Numbers as whole numbers over their common denominator.
    values = [Fraction(number(value, what)) for value in listed(values, what, size)]
    common = math.lcm(*(value.denominator for value in values))
    need(common < 1 << 4096, what + " are out of range")
    return [value.numerator * (common // value.denominator) for value in values], common


def by_path(case, key="ops"):
    path = wholes(case.witness[key], "path", None, case.ops)
    for before, op in zip(path, path[1:]):
        if before not in case.makers[op]:
            raise Unproved("op %d does not wait for op %d" % (op, before))
    return sum(min(case.times[case.row[d]][op] for d in case.may[case.op_class[op]]) for op in path)


def by_ideals(case):
    by_path(case, "path")
    bit = {op: 1 << i for i, op in enumerate(wholes(case.witness["ops"], "ops", None, case.ops))}
    path, before = sum(bit[op] for op in case.witness["path"]), [0] * case.ops
    for op in case.order:
        for maker in case.makers[op]:
            before[op] |= before[maker] | bit.get(maker, 0)
    host = [device["kind"] == "cpu" for device in case.devices]
    least = lambda op, cpu: min((case.times[case.row[d]][op] for d in case.may[case.op_class[op]] if host[d] == cpu), default=NEVER)
    bytes_of, nets = wholes(case.document["ops"]["bytes"], "bytes", case.ops), case.document["nets"]
    parts = zip(*(listed(nets[key], key, len(nets["op"])) for key in ("op", "readers", "ps")))
    nets = [(bit.get(op, 0), sum({bit.get(of, 0) for of in readers}), whole(ps, "ps")) for op, readers, ps in parts]
    total, ideals = {0: (0, 0)}, [0]  # Per ideal: time on accelerators, bytes.
    for ideal in ideals:
        for op, member in bit.items():
            wider = ideal | member
            if before[op] & ~ideal == 0 and wider not in total:
                total[wider] = (total[ideal][0] + least(op, False), total[ideal][1] + bytes_of[op])
                ideals.append(wider)
        need(len(ideals) <= 2000, "there are too many ideals")
    room = max((memory for memory, cpu in zip(case.memory, host) if not cpu), default=-1)
    cpu, best = {member: least(op, True) for op, member in bit.items()}, {ideal: NEVER * len(bit) for ideal in ideals}
    best[0] = 0
    for i, ideal in enumerate(ideals):
        for wider in ideals[i + 1:]:
            added = wider ^ ideal
            if wider & ideal != ideal:
                continue
            step = cpu.get(added, NEVER) if added & path else 0
            if added & path and total[wider][1] - total[ideal][1] <= room:
                step = min(step, total[wider][0] - total[ideal][0] + sum(time for maker, of, time in nets if (
                    maker & ideal and of & added) or (maker & added and of & ~wider)))
            best[wider] = min(best[wider], best[ideal] + step)
    return best[ideals[-1]]


def by_class(case):
    chosen = whole(case.witness["class"], "class", len(case.may))
    return min(sum(case.times[case.row[d]][op] for op in range(case.ops) if case.op_class[op] == chosen)
               for d in case.may[chosen])


def cheapest_work(case, kinds, prices, rents):
    """The sum over all classes of the least priced time and state (theorem 3)."""
    times = [[0] * len(case.may) for _ in case.rows]
    for total, line in zip(times, case.times):
        for op, time in enumerate(line):
            total[case.op_class[op]] += time
    return sum(min(prices[k] * times[row][c] + rents[k] * case.state[c] for k, row in {(kinds.of[d], case.row[d]) for d in devices})
               for c, devices in enumerate(case.may))


def by_work(case):
    kinds = Kinds(case)
    prices, unit = scaled(case.witness["prices"], "prices", len(kinds.groups))
    rents, share = scaled(case.witness.get("rents", [0] * len(prices)), "rents", len(prices))
    need("rents" not in case.witness or case.objective == "step-time", "rents are for the step time")
    # All terms over the product of both denominators.
    value, state = cheapest_work(case, kinds, [price * share for price in prices], [rent * unit for rent in rents]), sum(case.state)
    value -= sum(rents[k] * unit * min(case.memory[d], state) for d, k in kinds.of.items())
    return Fraction(value, kinds.paid(prices) * share)


def by_waiting(case):
    kinds, at = Kinds(case), whole(case.witness["op"], "op", case.ops)
    prices, common = scaled(case.witness["prices"], "prices", len(kinds.groups))
    rent, units = Fraction(number(case.witness["rent"], "rent")), whole(case.witness["units"], "units")
    again = wholes(case.document["ops"]["again"], "again", case.ops, 2)
    need(case.kernel[at] and units, "op is no kernel, or units are 0")
    before, after, open_ops = set(), {at}, [at]
    while open_ops:
        makers = {op for op in case.makers[open_ops.pop()] if case.kernel[op]} - before
        before |= makers
        open_ops += makers
    for op in case.order:
        if case.kernel[op] and not after.isdisjoint(case.makers[op]):
            after.add(op)

    def stored(op):  # What an op reads that is no state; one device keeps no parts.
        return {case.base[b] if len(case.devices) == 1 else b for b in case.reads[op] if not case.resident[b]}

    def size(b):
        return 0 if case.in_place[case.owner[b]] else case.bytes[b]

    needed = {b for op in after for b in stored(op) if case.owner[b] in before}
    held = {b for b in stored(at) if case.base[b] == b}
    kept = {b: amount for b, amount in (wholes(of, "kept", 2) for of in listed(case.witness["kept"], "kept"))}
    need(len(kept) == len(case.witness["kept"]) and all(b < len(case.owner) for b in kept), "kept buffers are not distinct")
    demand, load = collections.Counter(kept), collections.Counter()
    for b, amount in kept.items():
        if case.owner[b] not in before or amount > rent * units * size(b):
            raise Unproved("buffer %d is not made before the op, or pays more than its rent" % b)
        if case.base[b] != b:
            demand[case.base[b]] -= amount
        elif b not in held:
            load[case.owner[b]] += amount
    for op, b, amount in (wholes(of, "read", 3) for of in listed(case.witness["read"], "read")):
        if op not in before or not again[op] or b not in stored(op):
            raise Unproved("op %d does not run again, or does not read buffer %d" % (op, b))
        demand[b] -= amount
        load[op] -= amount
    for op, amount in load.items():
        least = min(prices[k] * kinds.times[k][op] for k in kinds.may[case.op_class[op]])
        if again[op] and amount * common > units * least:
            raise Unproved("op %d is worth more than it takes" % op)
    if any(amount < 0 for b, amount in demand.items() if b not in needed):
        raise Unproved("a buffer passes on less than it is asked for")
    made = 0 if case.in_place[at] else sum(case.bytes[b] for b, op in enumerate(case.owner) if op == at and case.base[b] == b)
    worth = Fraction(sum(amount for b, amount in demand.items() if b in needed), units)
    worth += Fraction(cheapest_work(case, kinds, prices, [0] * len(prices)), common)
    return (worth + rent * (made + sum(case.state) - sum(case.memory))) / Fraction(kinds.paid(prices), common)


def by_route(case):
    kinds = Kinds(case)
    heads, tails = sweeps(case, kinds)
    op = whole(case.witness["op"], "op", case.ops)
    return min(heads[op][k] + kinds.times[k][op] + tails[op][k] for k in kinds.may[case.op_class[op]])


def by_window(case):
    kinds = Kinds(case)
    prices, _ = scaled(case.witness["prices"], "prices", len(kinds.groups))
    head, tail = whole(case.witness["head"], "head"), whole(case.witness["tail"], "tail")
    heads, tails = sweeps(case, kinds)
    work, ops = 0, 0
    for op in range(case.ops):
        may = kinds.may[case.op_class[op]]
        if case.kernel[op] and all(heads[op][k] >= head and tails[op][k] >= tail for k in may):
            work, ops = work + min(prices[k] * kinds.times[k][op] for k in may), ops + 1
    return head + Fraction(work, kinds.paid(prices)) + tail if ops else 0


def check(document):
    try:
        case = Case(document)
        if case.kind not in case.kinds_of_proof:
            raise Unproved("a witness of kind %r proves no %s" % (case.kind, case.objective))
        proved = globals()["by_" + case.kind](case)
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise Malformed("lacks a part or has one of another type: %r" % error) from error
    if proved < case.claim:
        raise Unproved("its witness proves %.6f %s, less than the claim of %.6f" % (proved, case.unit, case.claim))
    return case


def run(path, graph=None, about=""):
    with open(path, "rb") as file:
        case = check(parse(file.read()))
    if graph:
        import certificate_graph  # Only for this: the proof needs nothing but this file.
        try:
            about = certificate_graph.compare(case, graph)
        except certificate_graph.Different as error:
            raise Unproved("it is not about %s: %s" % (graph, error)) from error
    claim = case.claim / (10**6 if case.unit == "ns" else 10**9)
    plans = " with " + " and ".join(case.allow) if case.allow else ""
    return "proved: no %s of %r%s is below %.6f ms (%s)%s" % (case.objective, case.name, plans, claim, case.kind, about)


def main(paths):
    if len(paths) not in (1, 2) or paths[0].startswith("-"):
        print("usage: check_certificate.py FILE [GRAPH]")
        return 2
    try:
        line, status = run(*paths), 0
    except Unproved as error:
        line, status = "not proved: %s: %s" % (paths[0], error), 1
    except (Malformed, OSError, EOFError, ValueError) as error:
        line, status = "malformed: %s: %s" % (paths[0], error), 2
    print(line)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
