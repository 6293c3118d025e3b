#!/usr/bin/env python3
"""placebench: placers compared on the same tasks, by one referee. docs/guide/placebench.md is its guide.

usage: bench/placebench/placebench.py run [options]               run what is missing, append each result to the results
       bench/placebench/placebench.py page [options]              write the page from the results
       bench/placebench/placebench.py tasks [options]             list the tasks, their bounds and best known values
       bench/placebench/placebench.py judge TASK FILE [--by NAME] judge a placement; --by keeps it if it is the best known
       bench/placebench/placebench.py best TASK FILE              write the best known placement of a task

The methods of `run` are those of --methods, each as NAME or NAME@BUDGET, and every --adapter. A result is a line of
the results, with the digest of its task (`setup`); a task that has changed is run again. The job can be stopped at any
time. A method that crashes, is too slow or gives an invalid placement has failed on that task; the job continues.
"""
import argparse
import functools
import hashlib
import itertools
import os
import pathlib
import queue
import shutil
import signal
import sys
import tempfile
import threading

import tasks
import judges
import methods
import placebench_page
from references import References
from tables import Failed, Rows, exit_status, finish, run_jobs, run_program

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = tasks.ROOT / "docs" / "results"
DEFAULT = ",".join(methods.HEURISTICS + ["critical-path", "auto@1s", "auto", "local-search", "anneal"] + methods.PAPERS)


def words(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "page", "tasks", "judge", "best"])
    parser.add_argument("task", nargs="?")
    parser.add_argument("file", nargs="?")
    parser.add_argument("--program", default=str(tasks.ROOT / "build/release/emplace"))
    parser.add_argument("--list", default=str(HERE / "tasks.toml"), help="the tasks")
    parser.add_argument("--references", default=str(HERE / "references.jsonl"), help="the best known placements")
    parser.add_argument("--results", default=str(RESULTS / "placebench.jsonl"))
    parser.add_argument("--page", default=str(RESULTS / "placebench.md"), help="-: standard output")
    parser.add_argument("--work", help="folder for graphs (default: build/placebench)")
    parser.add_argument("--workloads", help="folder of dnn-partitioning, for its tasks, and its evaluators where built")
    parser.add_argument("--doppler", help="folder of DOPPLER's repository, for the tasks that need it")
    parser.add_argument("--doppler-python", default=sys.executable, help="Python with simpy and networkx")
    parser.add_argument("--tasks", default="", metavar="REGEX")
    parser.add_argument("--methods", default=DEFAULT, help="NAME or NAME@BUDGET, by commas (default: %(default)s)")
    parser.add_argument("--adapter", action="append", default=[], metavar="NAME=COMMAND", help="another placer")
    parser.add_argument("--budget", default="5s", help="of methods without a budget of their own")
    parser.add_argument("--seeds", default="1", help="whole numbers, by commas")
    parser.add_argument("--threads", type=int, default=1, help="cores of each method")
    parser.add_argument("--jobs", type=int, default=1, help="methods at the same time, each on cores of its own")
    parser.add_argument("--grace", type=float, default=10, metavar="S", help="a method is stopped after two budgets and this")
    parser.add_argument("--minutes", type=float, default=0, help="start no method after this wall time; 0: no limit")
    parser.add_argument("--records", action="store_true", help="keep a placement that is better than the best known")
    parser.add_argument("--note", default="", help="kept with each result, such as what else the machine did")
    parser.add_argument("--by", help="name of the person or program that made the placement for judge")
    return parser.parse_intermixed_args(argv)  # Options may stand between a task and its file.


def row_key(row):
    return row["task"], row["method"], row["seed"], row["program"], row["threads"]


def sha_of(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()[:8]


def version_of(program):
    """The program's version, and the digest of its file: a program that was built again counts as another."""
    found = shutil.which(program)
    if not found:
        raise Failed("--program %s: is no program; build it or pass another" % program)
    return "emplace %s-%s" % (run_program(program, ["version"])["version"], sha_of(found))


class Bench:
    """Thread: any, except the constructor."""

    def __init__(self, args):
        self.args, self.lock = args, threading.Lock()
        self.version = version_of(args.program)
        self.program = os.path.abspath(shutil.which(args.program))
        self.tasks = tasks.read_tasks(args.list, args.tasks)
        self.workshop = tasks.Workshop(self.program, tasks.work_folder(args.work).absolute(), self.version, args.workloads,
                                       args.doppler)
        self.referee = judges.Referee(self.program, args.workloads, args.doppler, args.doppler_python)
        self.references, self.processes = References(args.references), methods.Processes()

    def task(self, name):
        """The Ready of the task with this name. Raises Failed."""
        task = next((task for task in self.tasks if task.name == name), None)
        if task is None:
            raise Failed("'%s': is no task; `placebench.py tasks` lists them" % name)
        if self.workshop.missing(task):
            raise Failed("%s: needs %s" % (name, self.workshop.missing(task)))
        return self.workshop.make(task)

    def run_one(self, task, method, seed, cores):
        """The values of a result. Raises Failed where the bench itself failed."""
        ready, args = self.workshop.make(task), self.args
        row = {"task": task.name, "setup": ready.setup, "method": method.name, "seed": seed,
               "program": self.placer(method), "threads": args.threads}
        start = lambda command, folder: self.processes.run(command, method.limit_s(args.grace), cores, folder)
        with tempfile.TemporaryDirectory(prefix="placebench-") as folder:
            try:
                path, times = method.place(ready, folder, seed, args.threads, start)
                row.update(times)
                placed = judges.read_placement(path, ready)
                row.update(self.referee.judge(ready, placed, folder))
            except (methods.Stopped, judges.Rejected) as reason:
                row["failed"] = str(reason).replace(folder, "").replace(str(ready.folder) + "/", "")
            else:
                with self.lock:
                    if args.records and self.references.offer(ready, placed, row["value_s"], by(method, seed), self.version):
                        print("%s: new best known, %.6g s by %s" % (task.name, row["value_s"], method.name), file=sys.stderr)
        return {**row, "note": args.note} if args.note else row

    def placer(self, method):
        """The program and version of a method; of an adapter, digests of the files that its command names."""
        if not isinstance(method, methods.Adapter):
            return self.version
        files = [sha_of(word) for word in method.words[1:] or method.words if os.path.isfile(word)]
        return "%s, %s" % (self.version, "-".join(files) or tasks.digest(method.words)[:8])


def by(method, seed):
    return "%s, seed %d" % (method.name, seed)


def plain_numbers(text, option):
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise Failed("%s '%s': needs whole numbers, by commas" % (option, text)) from None


def cores_of(args):
    """A queue of disjoint sets of cores, one for each job. Raises Failed."""
    available = sorted(os.sched_getaffinity(0), reverse=True)
    if args.threads < 1 or args.jobs < 1 or args.threads * args.jobs > len(available):
        raise Failed("--jobs %d --threads %d: this machine has %d cores for them" % (args.jobs, args.threads, len(available)))
    sets = queue.SimpleQueue()
    for job in range(args.jobs):
        sets.put(set(available[job * args.threads:(job + 1) * args.threads]))
    return sets


def do_run(args):
    bench = Bench(args)
    adapters = dict(methods.EXAMPLE)
    adapters.update(map(methods.parse_adapter, args.adapter))
    named = args.methods + "".join("," + text.partition("=")[0] for text in args.adapter)
    chosen = list({m.name: m for m in methods.parse_methods(named, args.budget, bench.program, adapters)}.values())
    seeds, sets = plain_numbers(args.seeds, "--seeds"), cores_of(args)
    results = Rows(args.results, row_key)
    for task in bench.tasks:
        if bench.workshop.missing(task):
            print("%s: not run; needs %s" % (task.name, bench.workshop.missing(task)), file=sys.stderr)
    work = [(task, method, seed) for task, method, seed in itertools.product(bench.tasks, chosen, seeds)
            if not bench.workshop.missing(task)]

    def make(task, method, seed):
        cores = sets.get()
        try:
            known = results.rows.get((task.name, method.name, seed, bench.placer(method), args.threads))
            if known and known["setup"] == bench.workshop.make(task).setup:
                return None
            row = bench.run_one(task, method, seed, cores)
            return None if bench.processes.over else row
        finally:
            sets.put(cores)

    def shown(row):
        value = "failed: " + row["failed"] if "failed" in row else "%.6g s" % row["value_s"]
        return value + (", after %.1f s" % row["wall_s"] if "wall_s" in row else "")

    jobs = [("%s, %s, seed %d" % (task.name, method.name, seed), functools.partial(make, task, method, seed))
            for task, method, seed in work]
    return finish(run_jobs(results.add, jobs, shown, args.jobs, args.minutes, bench.processes.end_all), "results")


def do_page(args):
    chosen = tasks.read_tasks(args.list)
    results = placebench_page.Results(chosen, References(args.references).of, Rows(args.results, row_key).rows.values())
    text = placebench_page.page(results)
    for line in results.left_out():
        print(line, file=sys.stderr)
    if args.page == "-":
        print(text, end="")
    else:
        pathlib.Path(args.page).write_text(text)
    return 0


def do_tasks(args):
    print(placebench_page.task_table(placebench_page.Results(
        tasks.read_tasks(args.list, args.tasks), References(args.references).of, [])), end="")
    return 0


def do_judge(args):
    bench = Bench(args)
    ready = bench.task(args.task)
    with tempfile.TemporaryDirectory(prefix="placebench-") as folder:
        try:
            placed = judges.read_placement(args.file, ready)
            judged = bench.referee.judge(ready, placed, folder)
        except judges.Rejected as reason:
            print("error: %s: %s" % (args.file, reason), file=sys.stderr)
            return 3
    known, value = bench.references.known(ready), judged["value_s"]
    print("%.9g s, %s, %.3f of the bound" % (
        value, "%.4f of the best known" % (value / known["value_s"]) if known else "the first", value / ready.bound_s))
    if "doppler_s" in judged:
        print("%.9g s by DOPPLER's cost code" % judged["doppler_s"])
    if args.by:
        kept = bench.references.offer(ready, placed, value, args.by, bench.version)
        print("kept as the best known" if kept else "not kept: no better than the best known")
    return 0


def do_best(args):
    bench = Bench(args)
    ready = bench.task(args.task)
    judges.write_placement(args.file, ready, bench.references.placement(ready))
    return 0


def main():
    args = words()
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))

    def run():
        if args.command in ("judge", "best") and not (args.task and args.file):
            raise Failed("%s: needs a task and a file" % args.command)
        return {"run": do_run, "page": do_page, "tasks": do_tasks, "judge": do_judge, "best": do_best}[args.command](args)
    return exit_status(run)


if __name__ == "__main__":
    sys.exit(main())
