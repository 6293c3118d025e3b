#!/usr/bin/env python3
"""Latencies of splits by another program's evaluator (README 1.1 of the published workloads' judge).

usage: make_split_fixture.py JUDGE_LATENCY.py HUMAN_EXPERTS WORKLOADS OUT
JUDGE_LATENCY.py has latency(workload, where); HUMAN_EXPERTS is a folder of the published splits; WORKLOADS is
tests/fixtures/third_party/dnn-partitioning. Memory, the number of accelerators and colours are lifted: latencies are
compared, not legality. Writes one line a split: WORKLOAD DEVICES LATENCY_MS SPLIT, a letter per id ('.': CPU, or no node).
"""
import gzip
import importlib.util
import json
import pathlib
import random
import sys

judge_path, experts, workloads, out = (pathlib.Path(a) for a in sys.argv[1:])
spec = importlib.util.spec_from_file_location("judge", judge_path)
judge = importlib.util.module_from_spec(spec)
spec.loader.exec_module(judge)
random.seed(11)


def load(path):
    with (gzip.open if path.suffix == ".gz" else open)(path) as file:
        workload = json.load(file)
    workload["maxSizePerFPGA"], workload["maxFPGAs"] = float("inf"), 26
    for node in workload["nodes"]:
        node.pop("colorClass", None)
    return workload


def line(name, workload, where, devices):
    try:
        value = "%.9f" % judge.latency(workload, where)
    except ValueError as error:
        assert "cycle" in str(error), error
        value = "circle"
    letters = ["."] * (1 + max(where))
    for node, device in where.items():
        letters[node] = "." if device == 0 else chr(ord("a") + device - 1)
    return "%s %d %s %s\n" % (name, devices, value, "".join(letters))


lines = ["# WORKLOAD ACCELERATORS LATENCY_MS SPLIT, by tests/parity/make_split_fixture.py\n"]
for name, expert in (("latency/bert24_inference.json", "bert24_inference_expert.json"),
                     ("latency/inceptionv3_inference.json.gz", "inceptionv3_inference_expert.json"),
                     ("latency/bert_l-3_inference.json.gz", None)):
    workload = load(workloads / name)
    ids = [node["id"] for node in workload["nodes"]]
    if expert:
        where = judge.read_split(workload, json.load(open(experts / expert)))
        lines.append(line(name, workload, where, max(where.values())))
    small = len(ids) < 100
    readers = {i: [] for i in ids}
    for edge in workload["edges"]:
        readers[edge["sourceId"]].append(edge["destId"])
    for k in range(24 if small else 12):
        devices = random.randint(1, 9)
        where = {i: random.randint(0, devices) for i in ids}
        for _ in range(0 if k % 3 == 0 else len(ids) * 4):  # Two of three splits have fewer borders.
            i = random.choice(ids)
            if readers[i]:
                where[random.choice(readers[i])] = where[i]
        if k % 4 == 1:  # One accelerator and the CPU: pieces, but no circles.
            where = {i: min(device, 1) for i, device in where.items()}
        lines.append(line(name, workload, where, devices))
    for k in range(6):  # Stretches of a topological order: mostly without circles.
        need = {i: 0 for i in ids}
        for i in ids:
            for j in set(readers[i]):
                need[j] += 1
        todo, order = [i for i in ids if need[i] == 0], []
        while todo:
            order.append(todo.pop(random.randrange(len(todo))))
            for j in set(readers[order[-1]]):
                need[j] -= 1
                if need[j] == 0:
                    todo.append(j)
        devices = random.randint(2, 12)
        where = {i: at * (2 * devices) // len(order) % (devices + 1) for at, i in enumerate(order)}
        lines.append(line(name, workload, where, devices))
out.write_text("".join(lines))
