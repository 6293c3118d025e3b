#!/usr/bin/env python3
"""Number of executors, and evaluations per second, that one head sustains.

usage: bench/scaling.py [options]        one row per number of executors, as JSON lines and a Markdown table

Runs the real program on this machine: a head (router, dispatcher, recorder, one random sampler) and processes with fake
executors. A fake executor waits `--delay` per placement and then simulates it. The graph is layered, with `--ops` ops.
All values are measured from outside: the summary of `emplace run --json`, CPU time and memory from /proc, connections
and bytes from `ss` (links are tcp on the loopback; `--endpoint ipc` avoids tcp).

  bench/scaling.py                                     16, 128 and 1,024 executors of 200 ms: utilisation
  bench/scaling.py --delay 1ms --executors 256         maximum evaluations per second of the head
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def words():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/emplace")
    parser.add_argument("--executors", default="16,128,1024")
    parser.add_argument("--delay", default="200ms", help="delay per placement")
    parser.add_argument("--spread", type=float, default=2, help="ratio of the longest to the shortest delay,"
                        " which keeps executors out of step")
    parser.add_argument("--seconds", type=float, default=60, help="duration of each run")
    parser.add_argument("--processes", type=int, default=4, help="processes shared by the executors")
    parser.add_argument("--ops", type=int, default=1000)
    parser.add_argument("--lease", type=int, default=4, help="placements per lease")
    parser.add_argument("--episode", type=int, default=16, help="placements per episode")
    parser.add_argument("--in-flight", type=int, default=0,
                        help="placements in flight; 0: four leases per executor")
    parser.add_argument("--endpoint", default="tcp://127.0.0.1:*")
    parser.add_argument("--keys", action="store_true", help="encrypt links, as between machines")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--perf", help="file for a profile of the head, taken in the middle of the last run")
    return parser.parse_args()


def layered_graph(ops, width=10):
    """Ops in layers of `width`; each reads two ops of the layer before. Sizes by splitmix64."""
    state = 7

    def draw(below):
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & (2**64 - 1)
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        return (z ^ (z >> 31)) % below

    lines = []
    for i in range(ops):
        before = i // width * width
        inputs = [[before - width + draw(width), 0] for _ in range(2)] if before else []
        lines.append({"id": i, "name": f"op{i}", "type": "MatMul" if before else "Input", "inputs": inputs,
                      "outputs": [{"dtype": "f32", "shape": [64 + draw(960), 256]}], "attrs": {},
                      "flops": (1 + draw(100)) * 10**7 if before else 0, "param_bytes": 0, "group": f"l{i // width}",
                      "phase": "forward"})
    return {"format": "emplace-graph v1", "name": f"layered-{ops}", "source": "bench/scaling.py",
            "meta": {"kind": "inference", "batch": 1}, "ops": lines}


class Watch(threading.Thread):
    """CPU time and memory of the nodes of a run, by name, from a quarter of the run to its last second."""

    def __init__(self, launcher, seconds, perf, run_dir):
        super().__init__(daemon=True)
        self.launcher, self.seconds, self.perf, self.run_dir = launcher, seconds, perf, run_dir
        self.result = {}

    def nodes(self):
        found = {}
        for pid in os.listdir("/proc"):
            if not pid.isdigit():
                continue
            try:
                with open(f"/proc/{pid}/stat") as stat:
                    parent = int(stat.read().rsplit(")", 1)[1].split()[1])
                with open(f"/proc/{pid}/cmdline") as line:
                    command = line.read().split("\0")
            except OSError:
                continue
            if parent == self.launcher and "--name" in command:
                found[command[command.index("--name") + 1]] = int(pid)
        return found

    def cpu_s(self, pid):
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def threads(self, pid):
        used = {}
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat") as stat:
                text = stat.read()
            fields = text.rsplit(")", 1)[1].split()
            name = "main" if int(thread) == pid else text[text.index("(") + 1:text.rindex(")")] + "/" + thread
            used[name] = (int(fields[11]) + int(fields[12])) / TICK
        return used

    def memory(self, pid):
        with open(f"/proc/{pid}/status") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) * 1024

    def sockets(self, pid):
        """Connections of the head with bytes sent and received; empty without `ss`."""
        if shutil.which("ss") is None:
            return 0, 0, 0
        out = subprocess.run(["ss", "-tinpH", "state", "established"], capture_output=True, text=True).stdout
        count = sent = received = 0
        lines = out.splitlines()
        for i, line in enumerate(lines):
            if f"pid={pid}," not in line or i + 1 >= len(lines):
                continue
            count += 1
            found = re.search(r"bytes_sent:(\d+)", lines[i + 1])
            sent += int(found.group(1)) if found else 0
            found = re.search(r"bytes_received:(\d+)", lines[i + 1])
            received += int(found.group(1)) if found else 0
        return count, sent, received

    def measurements(self):
        """Time of the head's last report, and the number of placements measured by then."""
        file = os.path.join(self.run_dir, "metrics.prom")
        with open(file) as text:
            measured = float(re.search(r"^emplace_measurements_total (.*)$", text.read(), re.M).group(1))
        return os.stat(file).st_mtime, measured  # The launcher writes this file at each report of the head.

    def sample(self, nodes):
        head = next(pid for name, pid in nodes.items() if name.startswith("head"))
        return {"t": time.monotonic(), "cpu": {name: self.cpu_s(pid) for name, pid in nodes.items()},
                "threads": self.threads(head), "sockets": self.sockets(head), "measured": self.measurements()}

    def run(self):
        time.sleep(self.seconds / 4)
        for _ in range(300):  # On a busy machine the first report may take longer.
            if os.path.exists(os.path.join(self.run_dir, "metrics.prom")):
                break
            time.sleep(0.1)
        nodes = self.nodes()
        first = self.sample(nodes)
        if self.perf:
            head = next(pid for name, pid in nodes.items() if name.startswith("head"))
            subprocess.Popen(["perf", "record", "-q", "-g", "-F", "299", "-p", str(head), "-o", self.perf, "--", "sleep",
                              str(self.seconds / 4)], stderr=subprocess.DEVNULL)
        time.sleep(self.seconds * 3 / 4 - 1)
        last = self.sample(nodes)
        span = last["t"] - first["t"]
        head = next(name for name in nodes if name.startswith("head"))
        cpu = {name: (last["cpu"][name] - first["cpu"][name]) / span for name in nodes}
        threads = {name: round((last["threads"][name] - first["threads"].get(name, 0)) / span, 3)
                   for name in last["threads"]}
        measured = [after - before for before, after in zip(first["measured"], last["measured"])]
        self.result = {
            "evaluations_per_s": round(measured[1] / measured[0], 1),
            "head_cores": round(cpu[head], 3),
            "head_threads": {name: cores for name, cores in sorted(threads.items(), key=lambda t: -t[1]) if cores > 0.01},
            "executor_cores": round(sum(cores for name, cores in cpu.items() if name != head), 3),
            "head_bytes": self.memory(nodes[head]),
            "executor_bytes": sum(self.memory(pid) for name, pid in nodes.items() if name != head),
            "connections": last["sockets"][0],
            "sent_per_s": round((last["sockets"][1] - first["sockets"][1]) / span),
            "received_per_s": round((last["sockets"][2] - first["sockets"][2]) / span),
        }


def play(args, executors, folder, perf):
    with open(os.path.join(folder, "graph.json"), "w") as out:
        json.dump(layered_graph(args.ops), out)
    with open(os.path.join(folder, "devices.toml"), "w") as out:
        out.write('[[device]]\nname = "cpu:0"\nprofile = "haswell18"\n\n[[device]]\nname = "gpu:0"\nprofile = "k40"\n\n'
                  '[[device]]\nname = "gpu:1"\nprofile = "k40"\n\n[[link]]\nbetween = ["*", "*"]\n'
                  'profile = "pcie3_x16"\n')
    with open(os.path.join(folder, "cluster.toml"), "w") as out:
        insecure = "insecure = true\n" if args.endpoint.startswith("tcp") and not args.keys else ""
        keys, key = "", ""
        if args.keys:
            for words in [[], ["--role", "executor", "--head", os.path.join(folder, "keys", "head.pub")]]:
                subprocess.run([args.program, "keygen", os.path.join(folder, "keys"), "--quiet", "--force", *words],
                               check=True, capture_output=True)
            keys = 'key = "keys/head.key"\nallowed = "keys/allowed.toml"\n'
            key = 'key = "keys/executor.key"\n'
        out.write(f'[head]\nendpoint = "{args.endpoint}"\n{insecure}{keys}\n[[node]]\nname = "executors"\n'
                  f'roles = ["executor"]\nprocesses = {min(args.processes, executors)}\n{key}')
    in_flight = args.in_flight or max(4 * args.lease * executors, 2 * args.episode)
    outstanding = (in_flight + args.episode - 1) // args.episode
    with open(os.path.join(folder, "config.toml"), "w") as out:
        out.write(f'[run]\nbudget = "{args.seconds:g}s"\n\n[input]\ngraph = "graph.json"\ndevices = "devices.toml"\n\n'
                  f'[pipeline]\nmax_outstanding = {outstanding}\nplacements_per_lease = {args.lease}\n\n'
                  f'[executor]\nkind = "fake"\ncount = {executors}\ndelay = "{args.delay}"\n'
                  f'delay_spread = {args.spread}\n\n'
                  f'[policy]\nmethod = "random"\nplacements = {args.episode}\n\n[compare]\nmethods = ["single-cpu"]\n')
    run_dir = os.path.join(folder, f"run-{executors}-{time.time_ns()}")
    command = [args.program, "run", os.path.join(folder, "config.toml"), "--cluster",
               os.path.join(folder, "cluster.toml"), "--run-dir", run_dir, "--json"]
    for setting in args.set:
        command += ["--set", setting]
    load = os.getloadavg()[0]
    started = time.monotonic()
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watch = Watch(program.pid, args.seconds, perf, run_dir)
    watch.start()
    out, err = program.communicate()
    if program.returncode not in (0, 3):
        sys.exit(f"{' '.join(command)}\n{err}")
    watch.join()
    summary = json.loads(out)
    row = {"executors": executors, "delay": args.delay, "utilisation": round(summary["executor_utilisation"], 4),
           "lost": summary["lost"], "duplicated": summary["duplicated"],
           "leases": summary.get("leases"), "load_before": round(load, 2),
           "wall_s": round(time.monotonic() - started, 1), **watch.result}
    if watch.result:
        rate = row["evaluations_per_s"] or float("nan")
        row["head_cpu_us_per_evaluation"] = round(watch.result["head_cores"] / rate * 1e6, 1)
        row["bytes_per_evaluation"] = round((row["sent_per_s"] + row["received_per_s"]) / rate, 1)
        row["bytes_per_executor"] = round(row["executor_bytes"] / executors)
    return row


def main():
    args = words()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        counts = [int(n) for n in args.executors.split(",")]
        for i, executors in enumerate(counts):
            rows.append(play(args, executors, folder, args.perf if i + 1 == len(counts) else None))
            print(json.dumps(rows[-1]), flush=True)
    print("\n| executors | busy | evaluations/s | head, cores | head, µs per evaluation | bytes per evaluation | connections |"
          "\n|--:|--:|--:|--:|--:|--:|--:|")
    for row in rows:
        print(f"| {row['executors']} | {100 * row['utilisation']:.1f} % | {row['evaluations_per_s']:.0f} | "
              f"{row.get('head_cores', 0):.2f} | {row.get('head_cpu_us_per_evaluation', 0)} | "
              f"{row.get('bytes_per_evaluation', 0)} | {row.get('connections', 0)} |")


if __name__ == "__main__":
    main()
