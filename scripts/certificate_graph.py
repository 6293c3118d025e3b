"""Compares the data of a certificate (check_certificate.py) with a graph file of format `emplace-graph v1`.

It lowers the graph by the rules of docs/reference/measurement.md itself and recomputes op times from the graph and the
certificate's rates of the devices. Machine, rules and the cost classes of ops are the certificate's word; so are times
that were measured on a device, and those of cost version 2, which come from fitted tables.
"""
import gzip
import json
import math
from fractions import Fraction

NEVER = 1 << 100
STATE = ("Parameter", "Buffer", "OptimizerState", "Input", "Constant")
BYTES = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "bool": 1, "f8": 1}
CLASSES = ("state", "view", "matmul", "conv", "conv_grouped", "norm", "reduce", "gather", "elementwise")
EFFECTS = ("infeed", "outfeed", "send", "recv", "Assign", "Enqueue", "QueueEnqueue")
EXCHANGES = ("all-", "reduce-scatter", "collective-", "ragged-all-to-all")
RATES = ("launch_us", "peak_gflops", "matrix_peak_gflops", "bandwidth_gbs", "bandwidth_efficiency")


class Different(Exception):
    """The certificate is about another graph, or one with rules of its own."""


def lower(ops):
    """The kernels of a graph; per op its buffers (output, bytes, whole), and those it reads (maker, output, bytes, …)."""
    kernel, owned, reads, where, waits = [], [[] for _ in ops], [], {}, {}
    for i, op in enumerate(ops):
        inputs = [tuple(edge) for edge in op["inputs"]]
        state, view = op["type"] in STATE and not inputs, bool(op.get("attrs", {}).get("view") and inputs)
        kernel.append(int(not state and not view))
        for k, tensor in enumerate(op["outputs"]):
            size, first = tensor_bytes(tensor), where[inputs[0]] if view else (i, k, NEVER, state)
            where[i, k] = first if size >= first[2] else (*first[:2], size, first[3], (i, k))  # The last: which part.
            if where[i, k] is not first:
                owned[first[0]].append((first[1], size, not view))
            others = {where[edge] for edge in inputs[1:] if view and not where[edge][3]} - {first}
            waits[i, k] = others.union(*(waits[edge] for edge in inputs if view))
        read = {buffer for edge in inputs for buffer in {where[edge], *waits[edge]}} if kernel[i] else ()
        reads.append(sorted(read))
    return kernel, owned, reads


def is_rate(value):
    return isinstance(value, (int, Fraction)) and 0 < value < 10**30


def may_run_again(op, kernel):
    """Whether a memory plan may run an op again (docs/reference/memory_plans.md)."""
    space, _, base = op["type"].rpartition("::")
    plain = base.split(".")[0]
    in_place = bool(space) and plain.endswith("_") and not plain.endswith("__")
    return kernel and op.get("phase", "forward") == "forward" and not in_place and not base.startswith(
        EFFECTS + EXCHANGES) and not op["type"].startswith(("_c10d_functional::", "c10d::"))


def matches(device, name):
    return device.startswith(name[:-1]) if name.endswith("*") else device == name


def tensor_bytes(tensor):
    return BYTES[tensor["dtype"]] * math.prod(tensor["shape"])


def op_time(case, graph, row, device_kind, i):
    """The time that graph and row state for a kernel, rounded; None where it was measured on a device or fitted."""
    op, row, ops = graph["ops"][i], case.rows[row], graph["ops"]
    names = [row["profile"], device_kind] + ["accelerator"] * (device_kind == "gpu")
    name = next((name for name in names if name in case.measured), None)
    us = op.get("measured_us", {}).get(name)
    if row["calibrated"] and (us is None or name != row["profile"]):
        return None
    if us is None and row.get("costs", 1) != 1:
        return None
    if us is None:
        kind, made = CLASSES.index(case.cost_class[i]), sum(map(tensor_bytes, op["outputs"]))
        moved = made + sum(tensor_bytes(ops[maker]["outputs"][k]) for maker, k in op["inputs"])
        if CLASSES[kind] == "gather":
            moved = 2 * tensor_bytes(op["outputs"][0]) if op["outputs"] else 0
        rate = {key: float(row[key]) for key in RATES}
        peak = rate["matrix_peak_gflops" if CLASSES[kind] in ("matmul", "conv") else "peak_gflops"]
        us = rate["launch_us"] + max(op["flops"] / (peak * 1e3 * float(row["efficiency"][kind])),
                                     moved / (rate["bandwidth_gbs"] * 1e3 * rate["bandwidth_efficiency"]))
    exact = Fraction(us * 1e3 if case.unit == "ns" else min(us * 1e6, case.most))
    return math.floor(exact + Fraction(1, 2))


def split_tensors(case, ops, kernel, reads):
    """Returns, for a split, (maker, readers) -> time over the host [ps] of all tensors that these ops read."""
    readers, nets = {}, {}
    for i, of in enumerate(reads):
        for buffer in of:
            readers.setdefault(buffer, []).append(i)
    pairs = [(s, t) for s in range(len(case.devices)) for t in range(len(case.devices)) if s != t]
    for buffer, of in readers.items():
        us = ops[buffer[0]].get("attrs", {}).get("transfer_us")
        if us is None:
            us = max((case.latency[s][t] * 1e6 + buffer[2] / case.rate[s][t] * 1e6 for s, t in pairs), default=0.0)
        key = (buffer[0], tuple(reader for reader in of if reader != buffer[0]))
        if key[1]:
            nets[key] = nets.get(key, 0) + math.floor(Fraction(min(us * 1e6, case.most)) + Fraction(1, 2))
    return nets


def split_bytes(ops, kernel, owned, reads):
    """Returns, for a split, the bytes of each op's state and of its results that the backward pass reads."""
    kept = state_bytes(ops, kernel, owned)
    late = {buffer[:2] for i, of in enumerate(reads) if ops[i].get("phase") == "backward"
            for buffer in of if buffer[4] == buffer[:2]}
    for i, op in enumerate(ops):
        if kernel[i] and op.get("phase", "forward") == "forward" and "transfer_us" not in op.get("attrs", {}):
            kept[i] += sum(size for k, size, full in owned[i] if full and (i, k) in late)
    return kept


def state_bytes(ops, kernel, owned):
    return [op["param_bytes"] if kernel[i] else sum(size for _, size, full in owned[i] if full) if op["type"] in STATE else 0
            for i, op in enumerate(ops)]


def difference(case, graph):
    """Returns how many op times were not recomputed. Raises Different if the certificate is not about the graph."""
    ops, case.cost_class = graph["ops"], case.document["ops"].get("cost_class")
    for row in case.rows:
        rates = [row.get(key) for key in RATES] + list(row.get("efficiency") or [])
        if len(rates) != len(RATES) + len(CLASSES) or not all(is_rate(rate) for rate in rates[1:]) or not (
                rates[0] == 0 or is_rate(rates[0])) or "profile" not in row or "calibrated" not in row:
            raise Different("the certificate lacks the rates of a device")
    if not isinstance(case.cost_class, list) or len(case.cost_class) != case.ops or set(case.cost_class) - set(CLASSES):
        raise Different("the certificate lacks the cost classes of the ops")

    def same(mine, theirs, what):
        if mine != theirs:
            raise Different(what + " differ")

    same(case.names, [op["name"] for op in ops], "op names")
    kernel, owned, reads = lower(ops)
    if case.objective == "step-time":
        mine, rank, wholes_of = [[] for _ in ops], {}, [0] * case.ops
        for b, owner in enumerate(case.owner):
            if case.base[b] == b:
                rank[b], wholes_of[owner] = wholes_of[owner], wholes_of[owner] + 1
        for b, owner in enumerate(case.owner):
            mine[owner].append((rank[case.base[b]], case.bytes[b], case.base[b] == b))
        same(list(map(sorted, mine)), list(map(sorted, owned)), "tensors")
        same([sorted((case.owner[b], rank[case.base[b]], case.bytes[b]) for b in of) for of in case.reads],
             [[buffer[:3] for buffer in of] for of in reads], "reads")
        same(case.kernel, kernel, "kernels")
        same(case.in_place, [int(op.get("phase") == "update") for op in ops], "updates")
        same(case.state_bytes, state_bytes(ops, kernel, owned), "bytes of state")
        if case.kind == "waiting":
            same(case.document["ops"]["again"], [int(may_run_again(op, kernel[i])) for i, op in enumerate(ops)], "ops that run again")
    else:
        same([sorted(of) for of in case.makers], [sorted({r[0] for r in of} - {i}) for i, of in enumerate(reads)], "reads")
    leader = list(range(case.ops))

    def root(op):
        while leader[op] != op:
            leader[op] = op = leader[leader[op]]
        return op

    for i, op in enumerate(ops):
        if op.get("colocate") is not None:
            leader[root(i)] = root(op["colocate"])
    pairs = {(root(i), c) for i, c in enumerate(case.op_class)}
    same(len(pairs), len({r for r, _ in pairs}), "co-located ops")
    same(len(pairs), len({c for _, c in pairs}), "co-located ops")
    allowed, devices = {}, [device["name"] for device in case.devices]
    for i, op in enumerate(ops):
        named = op.get("devices", ["*"])
        mine = {d for d, device in enumerate(devices) if any(matches(device, name) for name in named)}
        allowed[case.op_class[i]] = allowed.get(case.op_class[i], mine) & mine
    classes = case.document["classes"]
    same({c: set(case.choices[classes[c]]) for c in allowed}, allowed, "allowed devices")
    case.measured = {name for op in ops for name in op.get("measured_us", {})}
    edges = sum(len(op["inputs"]) for op in ops)
    case.most = 2.0**60 / (case.ops + sum(len(op["outputs"]) for op in ops) + 2 * edges + 1)
    if case.kind == "ideals":
        nets, kept, listed = split_tensors(case, ops, kernel, reads), split_bytes(ops, kernel, owned, reads), case.document["nets"]
        mine = sorted((op, sorted(of), ps) for op, of, ps in zip(listed["op"], listed["readers"], listed["ps"]))
        same(mine, sorted((op, list(of), ps) for (op, of), ps in nets.items()), "tensors")
        same(case.document["ops"]["bytes"], kept, "bytes")
    unknown = 0
    for d, row in enumerate(case.row):
        for i in range(case.ops) if row not in case.row[:d] else ():
            time = op_time(case, graph, row, case.devices[d]["kind"], i) if kernel[i] else 0
            unknown += time is None
            same(case.times[row][i], case.times[row][i] if time is None else time, "op times")
    return unknown


def compare(case, path):
    """Compares with a graph file and returns words about it. Raises Different; OSError; ValueError: not a graph file."""
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        text = file.read()
    try:
        unknown = difference(case, json.loads(text))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("%s is not a graph of format emplace-graph v1, or the certificate has a part of another type: %r"
                         % (path, error)) from error
    return "; the graph is %s, %d op times not recomputed" % (path, unknown)
