"""The values of a split under dnn-partitioning's two cost models (Tarnawski et al., NeurIPS 2020), in its unit, ms.

Written from docs/guide/objectives.md ("Throughput, max-load", "Latency"), apart from the program: the second opinion
of the referee. A workload is the published JSON. `where` maps each node's id to the name of its device; names of CPU
cores start with "cpu".
"""
import collections
import gzip
import json


class Illegal(Exception):
    """A split that the workload does not allow; the message contains the reason."""


def read(path):
    with (gzip.open if str(path).endswith(".gz") else open)(path) as file:
        return json.load(file)


class Split:
    """A workload and the device of each node. Devices are names: "cpu:0", "accel:0", …"""

    def __init__(self, workload, where):
        self.workload, self.where = workload, where
        self.nodes = {node["id"]: node for node in workload["nodes"]}
        self.makers = {id: set() for id in self.nodes}
        self.readers = {id: set() for id in self.nodes}
        self.cost = dict.fromkeys(self.nodes, 0.0)
        for edge in workload["edges"]:
            self.makers[edge["destId"]].add(edge["sourceId"])
            self.readers[edge["sourceId"]].add(edge["destId"])
            self.cost[edge["sourceId"]] = edge["cost"]

    def is_cpu(self, id):
        return self.where[id].startswith("cpu")

    def check(self):
        """Raises Illegal: a node without a device, a full accelerator, too many devices, a split colour class."""
        if self.where.keys() != self.nodes.keys():
            raise Illegal("not every node has a device")
        held, colours = collections.Counter(), {}
        for id, node in self.nodes.items():
            colour = node.get("colorClass")
            if colour is not None and colours.setdefault(colour, self.where[id]) != self.where[id]:
                raise Illegal("nodes of colour class %s are on two devices" % colour)
            if not self.is_cpu(id):
                held[self.where[id]] += node["size"]
                if not node.get("supportedOnFpga", True):
                    raise Illegal("node %d is not allowed on an accelerator" % id)
        if len(held) > self.workload["maxFPGAs"]:
            raise Illegal("uses %d accelerators of %d" % (len(held), self.workload["maxFPGAs"]))
        for device, size in held.items():
            if size > self.workload["maxSizePerFPGA"] * (1 + 1e-12):
                raise Illegal("%s needs %.0f bytes and has %.0f" % (device, size, self.workload["maxSizePerFPGA"]))

    def compute(self, id):
        return self.nodes[id]["cpuLatency" if self.is_cpu(id) else "fpgaLatency"]

    def max_load(self):
        """The load of the busiest device; a tensor that crosses an accelerator's border counts there once."""
        load = collections.Counter()
        for id, device in self.where.items():
            load[device] += self.compute(id)
            ends = {device} | {self.where[reader] for reader in self.readers[id]}
            for end in ends if len(ends) > 1 else ():
                if not end.startswith("cpu"):
                    load[end] += self.cost[id]
        return max(load.values())

    def latency(self):
        """The end of the last piece. Raises Illegal if pieces wait for each other in a cycle."""
        order = topological(self.makers, self.readers)
        piece = {id: ("cpu", id) for id in self.nodes}
        for device in set(self.where.values()):
            if device.startswith("cpu"):
                continue
            number = {}
            for id in order:
                inside = self.where[id] == device
                number[id] = max([number[maker] + (inside and self.where[maker] != device)
                                  for maker in self.makers[id]], default=0)
                if inside:
                    number[id] = max(number[id], 1)
                    piece[id] = device, number[id]
        members, makers, readers = collections.defaultdict(list), {}, {}
        for id in order:
            members[piece[id]].append(id)
        for name, inside in members.items():
            makers[name] = {piece[maker] for id in inside for maker in self.makers[id]} - {name}
            readers[name] = {piece[reader] for id in inside for reader in self.readers[id]} - {name}
        ends = {}
        for name in topological(makers, readers):
            ends[name] = max((ends[maker] for maker in makers[name]), default=0) + self.work(name, members[name])
        return max(ends.values())

    def work(self, name, inside):
        """The time of a piece: transfers in, ops, transfers out; a CPU node pays no transfer."""
        total = sum(self.compute(id) for id in inside)
        if name[0] == "cpu":
            return total
        own = set(inside)
        total += sum(self.cost[maker] for maker in set().union(*(self.makers[id] for id in inside)) - own)
        return total + sum(self.cost[id] for id in inside if self.readers[id] - own)


def topological(makers, readers):
    """The keys, each after those that it reads. Raises Illegal for a cycle."""
    missing = {key: len(of) for key, of in makers.items()}
    order = [key for key, count in missing.items() if not count]
    for key in order:
        for reader in readers[key]:
            missing[reader] -= 1
            if not missing[reader]:
                order.append(reader)
    if len(order) < len(makers):
        raise Illegal("pieces wait for each other in a cycle")
    return order


def value_ms(workload, where, objective):
    """The value of a legal split. Raises Illegal."""
    split = Split(workload, where)
    split.check()
    return split.latency() if objective == "latency" else split.max_load()
