#!/usr/bin/env python3
"""Example of a placer for placebench: list scheduling by critical path. usage: critical_path.py TASK.json

task.json (docs/guide/placebench.md) has devices, links and ops with their times; `placement` is the file to write.
"""
import heapq
import json
import sys

with open(sys.argv[1]) as file:
    task = json.load(file)
ops, devices, latency, rate = task["ops"], task["devices"], task["latency_s"], task["bytes_per_s"]
# State (parameters, inputs) takes no time and follows its first reader; the other ops are scheduled.
state = [not op["reads"] and not any(op["time_s"]) for op in ops]
readers, missing, rank = [[] for _ in ops], [0] * len(ops), [0.0] * len(ops)
for i in reversed(range(len(ops))):  # Ops are listed after those that they read.
    # The rank of an op: the longest way from its start to the end, with mean times and transfers over one link.
    rank[i] += sum(ops[i]["time_s"][d] for d in ops[i]["devices"]) / len(ops[i]["devices"])
    for maker, size in ops[i]["reads"]:
        readers[maker].append(i)
        missing[i] += not state[maker]
        rank[maker] = max(rank[maker], rank[i] + latency[0][-1] + size / rate[0][-1])
need = {}  # Bytes of a class, as if every result were kept until the end: more than enough.
for op in ops:
    need[op["class"]] = need.get(op["class"], 0) + op["state_bytes"] + op["output_bytes"]
room, free = [device["memory_bytes"] for device in devices], [0.0] * len(devices)
end, at, device_of = [0.0] * len(ops), [None] * len(ops), {}


def place(i, d):
    """Op i is on d, unless its class has a device already or may not be there."""
    if ops[i]["class"] not in device_of:
        device_of[ops[i]["class"]] = d = d if d in ops[i]["devices"] else ops[i]["devices"][0]
        room[d] -= need[ops[i]["class"]]
    at[i] = device_of[ops[i]["class"]]


def finish(i, d):
    arrivals = (end[m] + (latency[at[m]][d] + size / rate[at[m]][d] if at[m] != d else 0)
                for m, size in ops[i]["reads"] if at[m] is not None)
    return max(free[d], max(arrivals, default=0)) + ops[i]["time_s"][d]


ready = [(-rank[i], i) for i in range(len(ops)) if not missing[i] and not state[i]]
heapq.heapify(ready)
while ready:
    _, i = heapq.heappop(ready)
    fits = [d for d in ops[i]["devices"] if room[d] >= need[ops[i]["class"]]]
    place(i, min(fits, key=lambda d: finish(i, d)) if fits else max(ops[i]["devices"], key=room.__getitem__))
    end[i] = finish(i, at[i])
    free[at[i]] = end[i] if ops[i]["time_s"][at[i]] else free[at[i]]
    for m, _ in ops[i]["reads"]:
        place(m, at[i])
    for j in readers[i]:
        missing[j] -= 1
        if not missing[j]:
            heapq.heappush(ready, (-rank[j], j))
for i in range(len(ops)):
    place(i, 0)  # State that no op reads.
with open(task["placement"], "w") as file:
    json.dump({"ops": {op["name"]: devices[d]["name"] for op, d in zip(ops, at)}}, file)
